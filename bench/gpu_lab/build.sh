#!/bin/sh
# build.sh SET...: compiles the variant lists that variants.py knows, and the lab, into build-gpu/.
set -e
cd "$(dirname "$0")/../.."
mkdir -p build-gpu
g++ -O2 -std=c++20 -Ikernels -I/usr/local/cuda/include bench/gpu_lab/lab.cpp -o build-gpu/lab -ldl -static-libstdc++ -static-libgcc
for set in "$@"; do
  python3 bench/gpu_lab/variants.py $(echo "$set" | tr , ' ') >"build-gpu/$set.txt"
  python3 bench/gpu_lab/compile.py --plain bench/gpu_lab/util.cu "build-gpu/$set/util.cubin"
  nice -n 10 python3 bench/gpu_lab/compile.py "build-gpu/$set" "build-gpu/$set.txt" 2 | tee "build-gpu/$set.log" | grep -v " ok "
done
