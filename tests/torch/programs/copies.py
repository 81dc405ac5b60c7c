"""Copies tensors to the device and back; the host waits for the third and the fifth copy."""

import torch

device = torch.device("cuda", 0)
batch = torch.ones(1 << 20)
on_device = torch.zeros_like(batch, device=device)
on_device.copy_(on_device + 1)
on_device.copy_(batch, non_blocking=True)
on_device.copy_(batch)
batch.copy_(on_device, non_blocking=True)
batch.copy_(on_device)
