#!/bin/sh
# run.sh [options] [resnet8 resnet18 resnet50]: ./dev bench. PyTorch is looked for in BSTUNE_TORCH_PYTHON, else in
# .venv, which is made where pip can reach an index; without it bstune is shown alone.
set -eu
cd "$(dirname "$0")/../.."
venv=.venv
python=${BSTUNE_TORCH_PYTHON:-}
if [ -z "$python" ]; then
    if [ ! -x $venv/bin/python ]; then
        python3 -m venv $venv && $venv/bin/pip install -q torch torchvision numpy || rm -rf $venv
    fi
    [ ! -x $venv/bin/python ] || python=$venv/bin/python
fi
exec python3 tests/bench/bench.py build/tests/bench_train ${python:+--python "$python"} "$@"
