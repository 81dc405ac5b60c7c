"""Asks for what a CUDA build of PyTorch has: numbers as devices, random states, masks, side streams."""

import torch

number = torch.cuda.current_device()
times = torch.zeros(4, 2, device=number)
times[0, 0] = times[2, 0] = 3.5
chosen = times[times > 0]
print(times.device, len(chosen))

torch.cuda.manual_seed(7)
state = torch.cuda.get_rng_state()
torch.cuda.manual_seed(8)
print(torch.cuda.initial_seed(), torch.equal(torch.cuda.get_rng_state(), state))
torch.cuda.default_generators[number].set_state(state)
print(torch.cuda.initial_seed())

layer = torch.nn.Linear(64, 64).to(number)
x = torch.ones(8, 64, device=number)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = layer(x)
torch.cuda.current_stream().wait_stream(side)
y.sum().backward()
y.detach()[torch.rand(8, device=number) > 0.5] = 0.0  # One kernel, whatever is chosen.
