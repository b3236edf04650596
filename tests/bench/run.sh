#!/bin/sh
# run.sh [options] [resnet8 resnet18 resnet50 gpt lengths], run.sh jpeg|gpu [options], and without PyTorch run.sh paper,
# run.sh split, run.sh recompute and run.sh mem [options]: ./dev bench. PyTorch is looked for in
# BSTUNE_TORCH_PYTHON, else in .venv, which is made where pip can reach an index; without it bstune is shown
# alone, and JPEG loading not at all.
set -eu
cd "$(dirname "$0")/../.."
case ${1-} in
split | recompute) # what a setting costs, beside the same run without it
    exec python3 tests/bench/paired.py "$@"
    ;;
mem) # what mem says, beside what a run's process comes to
    shift
    exec python3 tests/bench/memory.py "$@"
    ;;
esac
venv=.venv
python=${BSTUNE_TORCH_PYTHON:-}
if [ -z "$python" ]; then
    if [ ! -x $venv/bin/python ]; then
        python3 -m venv $venv && $venv/bin/pip install -q torch torchvision numpy || rm -rf $venv
    fi
    [ ! -x $venv/bin/python ] || python=$venv/bin/python
fi
if [ "${1-}" = paper ]; then # what memory allows at most, on paper; needs cuDNN, but no GPU
    exec env BSTUNE_MODULE_DIR=build BSTUNE_PRESET_DIR=presets build/tests/bench_paper resnet50 256 fp16 a100 h100
fi
if [ "${1-}" = gpu ]; then
    shift
    exec env BSTUNE_MODULE_DIR=build python3 tests/bench/gpu.py build/tests/bench_gpu ${python:+--python "$python"} "$@"
fi
if [ "${1-}" = jpeg ]; then
    shift
    exec "${python:-python3}" tests/bench/jpeg.py "$@"
fi
status=0
python3 tests/bench/bench.py build/tests/bench_train ${python:+--python "$python"} "$@" || status=$?
if [ $# -eq 0 ] && [ -n "$python" ]; then
    "$python" tests/bench/jpeg.py || status=$?
fi
exit $status
