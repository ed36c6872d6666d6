#include "runtime/pack_decisions.h"

#include <gtest/gtest.h>

#include "backend/backend.h"
#include "base/fs.h"
#include "runtime/pack_kernels.h"

namespace tessera {
namespace {

const Problem kProblem = Problem::parse("gemm m=37 n=48 k=19 dtype=f32 layout=rrr");

class PackDecisionsTest : public testing::Test {
 protected:
  DispatcherOptions options() const {
    DispatcherOptions o;
    o.cache_dir = dir_.path() + "/cache";
    o.threads = 1;
    return o;
  }

  // A pack made where `config` was chosen.
  std::string pack_of(const std::string& config, bool decisions = true) {
    DispatcherOptions there = options();
    there.policy = Policy::explicit_config;
    there.config = config;
    PackWriter writer;
    add_kernels(writer, {&kProblem, 1}, {.dispatcher = there, .decisions = decisions});
    const std::string path = dir_.path() + "/made.pack";
    writer.write(path);
    return path;
  }

  // One that no policy would take first.
  std::string least_liked() const {
    Dispatcher d(options());
    return to_string(d.explain(kProblem).candidates.back().config);
  }

  TempDir dir_{temp_directory()};
};

TEST_F(PackDecisionsTest, AreWhatADispatcherChooses) {
  const std::string config = least_liked();
  DispatcherOptions o = options();
  o.packs = {pack_of(config)};
  Dispatcher d(o);
  BuildInfo info;
  const Kernel& kernel = d.get(kProblem, &info);
  EXPECT_EQ(to_string(kernel.choice().config), config);
  EXPECT_EQ(kernel.choice().source, ChoiceSource::tuned);
  EXPECT_EQ(to_string(d.explain(kProblem).choice.config), config);

  Dispatcher without(options());
  EXPECT_NE(to_string(without.get(kProblem).choice().config), config);
}

TEST_F(PackDecisionsTest, AreForAsManyThreads) {
  DispatcherOptions o = options();
  o.packs = {pack_of(least_liked())};
  o.threads = 2;
  EXPECT_EQ(Dispatcher(o).get(kProblem).choice().source, ChoiceSource::model);
}

TEST_F(PackDecisionsTest, AreLeftOutWhereKernelsAloneAreWanted) {
  DispatcherOptions o = options();
  o.packs = {pack_of(least_liked(), false)};
  EXPECT_EQ(Dispatcher(o).get(kProblem).choice().source, ChoiceSource::model);
}

TEST_F(PackDecisionsTest, GiveWayToWhatWasMeasuredHere) {
  struct Measured : Decisions {
    explicit Measured(KernelConfig c) : config(c) {}
    std::optional<Choice> find(const std::string&, int, const Problem&) const override {
      return Choice{.config = config, .source = ChoiceSource::tuned};
    }
    KernelConfig config;
  };
  DispatcherOptions o = options();
  o.packs = {pack_of(least_liked())};
  const KernelConfig other = Dispatcher(options()).explain(kProblem).candidates[1].config;
  o.decisions = std::make_shared<Measured>(other);
  EXPECT_EQ(Dispatcher(o).get(kProblem).choice().config, other);
}

}  // namespace
}  // namespace tessera
