"""Layers of a residual network in all directions: chosen kernel, time and rate, each verified."""
import tessera

LAYERS = ["n=1 c=64 k=64 in=14x14 filter=3x3 pad=1x1", "n=1 c=64 k=128 in=14x14 filter=1x1 stride=2x2",
          "n=1 g=32 c=1 k=1 in=14x14 filter=3x3 pad=1x1"]

with tessera.Dispatcher(threads=1) as dispatcher:
    for layer in LAYERS:
        for direction in ("conv_fwd", "conv_bwd_data", "conv_bwd_weight"):
            report = dispatcher.measure(f"{direction} {layer} dtype=f32", budget_ms=5)
            assert report["verified"], report
            print(f"{report['time_us']:9.1f} us {report['gflops']:7.1f} GFLOP/s  {direction} {layer}\n"
                  f"{'':34}{report['config']}")
