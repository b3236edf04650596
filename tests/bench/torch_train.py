"""torch_train.py MODE NET STEM CHANNELS SIZE CLASSES BATCH THREADS: PyTorch's side of the bench.

Trains on one generated batch in channels_last, MODE eager or compile. Lines on standard input are
"full N" and "rss"; the answer is seconds for N updates, or the process's peak resident bytes.
"""

import sys

import torch
from torch import nn

from torch_serve import serve


class Block(nn.Module):
    """Basic block of He et al. 2015 with a 1x1 projection where the shape changes."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample = None
        if stride != 1 or c_in != c_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + residual)


class CifarResNet(nn.Module):
    """The 6n+2 family: three stages of 16, 32 and 64 channels."""

    def __init__(self, depth, channels, classes):
        super().__init__()
        n = (depth - 2) // 6
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        c_in, stages = 16, []
        for stage, width in enumerate((16, 32, 64)):
            for i in range(n):
                stages.append(Block(c_in, width, 2 if stage and not i else 1))
                c_in = width
        self.layers = nn.Sequential(*stages)
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layers(self.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


def build(name, stem, channels, classes):
    depth = int(name[len("resnet"):])
    if depth in (18, 34, 50, 101):
        import torchvision
        net = getattr(torchvision.models, name)(num_classes=classes)
        if stem == "cifar":
            net.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
            net.maxpool = nn.Identity()
        return net
    return CifarResNet(depth, channels, classes)


def main():
    mode, name, stem = sys.argv[1:4]
    channels, size, classes, batch, threads = map(int, sys.argv[4:9])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = build(name, stem, channels, classes).to(memory_format=torch.channels_last)
    net.train()
    x = torch.randn(batch, channels, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    loss_of = nn.CrossEntropyLoss()
    step = torch.compile(net) if mode == "compile" else net

    def update():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(step(x), labels)
        loss.backward()
        optimizer.step()

    serve(update)


if __name__ == "__main__":
    main()
