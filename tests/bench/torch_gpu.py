"""torch_gpu.py MODE NET SIZE CLASSES BATCH PRECISION: PyTorch's side of the GPU bench.

Trains on one generated batch that lies on the device, in channels_last, with a fused SGD; fp16 with a
gradient scaler, as one does. MODE is eager or compile; PRECISION fp32, tf32, fp16 or bf16. Lines on
standard input are "full N", "kinds N" and "memory"; the answers are lines of JSON as bench_gpu's.
"""

import json
import sys
import time


def kind_of(name):
    """What a kernel's or an operation's name belongs to, in the words of bench_gpu's instructions."""
    name = name.lower()
    for word, kind in (("batch_norm", "batch norm"), ("bn_", "batch norm"), ("conv", "convolution"),
                       ("dgrad", "convolution"), ("wgrad", "convolution"), ("fprop", "convolution"),
                       ("gemm", "convolution"), ("cutlass", "convolution"), ("xmma", "convolution"),
                       ("pool", "pooling"), ("softmax", "loss"), ("nll", "loss"), ("sgd", "optimizer"),
                       ("multi_tensor", "optimizer"), ("add", "pointwise"), ("relu", "pointwise"),
                       ("threshold", "pointwise"), ("clamp", "pointwise"), ("elementwise", "pointwise"),
                       ("triton", "fused by the compiler"), ("memcpy", "copies"), ("memset", "copies")):
        if word in name:
            return kind
    return "other"


def main():
    import torch
    import torchvision
    mode, name = sys.argv[1:3]
    size, classes, batch = map(int, sys.argv[3:6])
    precision = sys.argv[6]
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    net = getattr(torchvision.models, name)(num_classes=classes).cuda().to(memory_format=torch.channels_last)
    net.train()
    x = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,), device="cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
    loss_of = torch.nn.CrossEntropyLoss()
    step = torch.compile(net) if mode == "compile" else net

    def update():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=kind or torch.float16, enabled=kind is not None):
            loss = loss_of(step(x), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    def timed(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            update()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def kinds(n):
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            timed(n)
        sums = {}
        for e in p.key_averages():
            ms = getattr(e, "device_time_total", None)
            ms = (e.cuda_time_total if ms is None else ms) / 1e3 / n
            sums[kind_of(e.key)] = sums.get(kind_of(e.key), 0) + ms
        return sums

    timed(3)
    print(f"ready torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}",
          flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "full":
            print(json.dumps({"seconds": timed(int(rest[0]))}), flush=True)
        elif word == "kinds":
            print(json.dumps({"kinds": kinds(int(rest[0]))}), flush=True)
        elif word == "memory":
            print(json.dumps({"peak": torch.cuda.max_memory_allocated(),
                              "taken": torch.cuda.max_memory_reserved()}), flush=True)


if __name__ == "__main__":
    main()
