"""A residual block on Tessera's kernels: the same outputs and gradients as torch's own. Needs torch."""
import sys

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)

import tessera.torch


class Block(torch.nn.Module):
    def __init__(self, channels, outputs, stride):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(outputs)
        self.second = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(outputs)
        self.shortcut = torch.nn.Conv2d(channels, outputs, 1, stride)

    def forward(self, x):
        y = torch.relu(self.norm1(self.first(x)))
        return torch.relu(self.norm2(self.second(y)) + self.shortcut(x))


torch.manual_seed(1)
theirs = torch.nn.Sequential(Block(8, 16, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 4))
ours = torch.nn.Sequential(Block(8, 16, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 4))
ours.load_state_dict(theirs.state_dict())
tessera.torch.convert(ours)

x = torch.randn(4, 8, 14, 14)
inputs = [x.clone().requires_grad_() for _ in range(2)]
outputs = [model(x) for model, x in zip((ours, theirs), inputs)]
torch.testing.assert_close(*outputs, atol=1e-4, rtol=1e-4)
for y in outputs:
    y.square().sum().backward()
torch.testing.assert_close(inputs[0].grad, inputs[1].grad, atol=1e-3, rtol=1e-3)
for (name, got), want in zip(ours.named_parameters(), theirs.parameters()):
    torch.testing.assert_close(got.grad, want.grad, atol=1e-3, rtol=1e-3, msg=lambda text: f"{name}: {text}")
print("outputs and gradients of", sum(p.numel() for p in ours.parameters()), "parameters are torch's")
