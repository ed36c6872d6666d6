// Every convolution of ResNet-50, forward and backward: one table of layers, kernels built in parallel, times
// by direction. Layers of the last stages are verified.
#include <string>

#include "conv.h"

namespace {

struct Layer {
  int c, k, in, filter, stride, count;  // of 224 x 224 images
  bool verified = false;
};

constexpr Layer kLayers[] = {
    {3, 64, 224, 7, 2, 1},         {64, 64, 56, 1, 1, 1},         {64, 64, 56, 3, 1, 3},
    {64, 256, 56, 1, 1, 4},        {256, 64, 56, 1, 1, 2},        {256, 128, 56, 1, 1, 1},
    {128, 128, 56, 3, 2, 1},       {128, 512, 28, 1, 1, 4},       {256, 512, 56, 1, 2, 1},
    {512, 128, 28, 1, 1, 3},       {128, 128, 28, 3, 1, 3},       {512, 256, 28, 1, 1, 1},
    {256, 256, 28, 3, 2, 1},       {256, 1024, 14, 1, 1, 6},      {512, 1024, 28, 1, 2, 1},
    {1024, 256, 14, 1, 1, 5},      {256, 256, 14, 3, 1, 5},       {1024, 512, 14, 1, 1, 1},
    {512, 512, 14, 3, 2, 1},       {512, 2048, 7, 1, 1, 3, true}, {1024, 2048, 14, 1, 2, 1},
    {2048, 512, 7, 1, 1, 2, true}, {512, 512, 7, 3, 1, 2},
};

tessera::Problem problem(const char* op, const Layer& l) {
  const auto twice = [](int v) { return std::to_string(v) + 'x' + std::to_string(v); };
  return tessera::Problem::parse(std::string(op) + " c=" + std::to_string(l.c) + " k=" + std::to_string(l.k) +
                                 " in=" + twice(l.in) + " filter=" + twice(l.filter) +
                                 " stride=" + twice(l.stride) + " pad=" + twice(l.filter / 2) + " dtype=f32");
}

}  // namespace

int main() {
  return example::run([] {
    constexpr const char* kDirections[] = {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"};
    std::vector<tessera::Problem> problems;
    for (const Layer& l : kLayers) {
      for (const char* op : kDirections) problems.push_back(problem(op, l));
    }
    tessera::Dispatcher dispatcher({.threads = 1});
    for (const std::string& error : dispatcher.build(problems, 0)) {
      if (!error.empty()) return std::puts(error.c_str()), false;
    }
    bool right = true;
    double ms[3] = {}, gflop[3] = {};
    std::printf("%5s %5s %4s %6s %6s %5s | ms: %8s %8s %8s\n", "c", "k", "in", "filter", "stride", "count",
                "fwd", "bwd data", "bwd weight");
    for (const Layer& l : kLayers) {
      double layer_ms[3];
      for (int d = 0; d < 3; ++d) {
        const tessera::Problem p = problem(kDirections[d], l);
        example::Tensors t(p);
        layer_ms[d] = example::best_us(dispatcher.get(p), t.buffers(), 2) / 1e3;
        ms[d] += l.count * layer_ms[d];
        gflop[d] += l.count * example::gflop(p);
        if (l.verified) right &= example::same(t.c, example::expected(p, t.a, t.b), kDirections[d]);
      }
      std::printf("%5d %5d %4d %6d %6d %5d |     %8.3f %8.3f %8.3f\n", l.c, l.k, l.in, l.filter, l.stride,
                  l.count, layer_ms[0], layer_ms[1], layer_ms[2]);
    }
    for (int d = 0; d < 3; ++d) {
      std::printf("%-16s %8.1f ms for one image, %.1f GFLOP/s\n", kDirections[d], ms[d],
                  1e3 * gflop[d] / ms[d]);
    }
    return right;
  });
}
