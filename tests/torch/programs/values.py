"""Reads values of the device: some that it has been given, and some that it has not."""

import torch

device = torch.device("cuda", 0)
print((torch.tensor(3, device=device) + torch.full((), 4, dtype=torch.long, device=device)).item())
print(torch.tensor([1, 2]).to(device).add_(1).tolist())
loss = torch.nn.Linear(4, 1).to(device)(torch.ones(2, 4, device=device)).sum()
print(loss.item())
total = torch.zeros((), device=device)
total += loss.detach()  # It was zero, and is not known any more.
print(total.item())
print(torch.isnan(loss).item())

# A scaler of losses goes on, and the optimizer steps.
parameter = torch.nn.Parameter(torch.ones(4, device=device))
optimizer = torch.optim.SGD([parameter], lr=0.1)
scaler = torch.amp.GradScaler("cuda")
scaler.scale(parameter.sum()).backward()
optimizer.register_step_post_hook(lambda *_: print("scaled"))
scaler.step(optimizer)
scaler.update()
