#!/bin/sh
# all.sh BUILD: every convolution of ResNet-18, 34, 50 and 101 at six batches and four precisions, and the attention
# of gpt, bert and transformer at four lengths, three batches and both types of 16 bits, for the six GPUs of
# presets/devices; two at a time, from nothing kept.
set -eu
build=$1
answers=$(mktemp -d)
trap 'rm -rf "$answers"' EXIT
export BSTUNE_MODULE_DIR="$build"
printf '%s\n' a100 l40 h100 h200 b200 t4 |
    xargs -P 2 -I GPU "$build/tests/test_cudnn_graphs_t4" GPU "$answers/GPU" all
printf '%s\n' a100 l40 h100 h200 b200 t4 |
    xargs -P 2 -I GPU "$build/tests/test_cudnn_attention_t4" GPU "$answers/GPU-attention" all
