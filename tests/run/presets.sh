#!/bin/sh
# presets.sh BSTUNE: every shipped preset trains an update on generated data. Width, image and batch are
# shrunk; devices, accumulation, schedule and rate groups are the preset's own.
set -u
bstune=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

# train PRESET BATCH SPLIT [SET…]: SPLIT is what the metrics must say of the batch.
train() {
    name=$1 batch=$2 split=$3
    shift 3
    if ! "$bstune" run "$name" --headless --run-dir "$dir/$name" --set data.format=shapes --set data.path= \
        --set data.image_size=32 --set data.train_count=96 --set data.eval_count=16 --set model.width=8 \
        --set model.classes=10 --set model.in_channels=3 --set global_batch_size="$batch" \
        --set warmup_epochs=0 --set max_steps=1 "$@" >"$dir/out" 2>&1; then
        echo "$name: did not train"
        tail -n 5 "$dir/out"
        bad=1
        return
    fi
    line=$(grep '"type":"update"' "$dir/$name/metrics.jsonl" | head -n 1)
    case $line in
    *"$split"*) ;;
    *)
        echo "$name: expected $split in: $line"
        bad=1
        ;;
    esac
    case $line in
    *'"loss":null'* | *'"nonfinite"'* | '')
        echo "$name: no finite loss in: $line"
        bad=1
        ;;
    esac
}

one='"micro_batch_size":8,"gradient_accumulation_steps":1'
train quickstart 8 "\"global_batch_size\":8,$one"
train rtx3090-128 8 "\"global_batch_size\":8,$one"
train a100x4-ddp-2048 32 "\"global_batch_size\":32,$one"
train accumulate8-1024 64 '"global_batch_size":64,"micro_batch_size":8,"gradient_accumulation_steps":8' \
    --set micro_batch_size=8
train resnet50-256 8 "\"global_batch_size\":8,$one"
train resnet50-384 12 '"global_batch_size":12,"micro_batch_size":12,"gradient_accumulation_steps":1'
train resnet50-1024-layerwise 8 "\"global_batch_size\":8,$one"

# What the reference left is what fine-tuning starts from, with five classes instead of ten.
weights=$dir/resnet50-256/weights.safetensors
train finetune-last 8 "\"global_batch_size\":8,$one" --init "$weights" --set model.classes=5
train finetune-tail 8 "\"global_batch_size\":8,$one" --init "$weights" --set model.classes=5
"$bstune" run finetune-last --headless --run-dir "$dir/none" >"$dir/out" 2>&1
code=$?
want='finetune-last: error: init: this preset starts from pretrained weights; give them with --init FILE'
if [ $code != 2 ] || [ "$(cat "$dir/out")" != "$want" ]; then
    echo "finetune-last without --init: exit $code, $(cat "$dir/out")"
    bad=1
fi

"$bstune" run quickstart --headless --run-dir "$dir/grey" --set data.format=shapes \
    --set data.mean='[0.1, 0.2, 0.3]' >"$dir/out" 2>&1
code=$?
if [ $code = 0 ] || ! grep -q 'data.mean: 3 numbers, but the images have 1 channel$' "$dir/out"; then
    echo "three means for grey images: exit $code, $(cat "$dir/out")"
    bad=1
fi

# All of them, so that a new one is not forgotten here.
n=$(find "$(dirname "$0")/../../presets" -name '*.yaml' | wc -l)
if [ "$(find "$dir" -maxdepth 2 -name weights.safetensors | wc -l)" != "$n" ]; then
    echo "there are $n presets; $(find "$dir" -maxdepth 2 -name weights.safetensors | wc -l) were trained"
    bad=1
fi
exit $bad
