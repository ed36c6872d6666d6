#include "runtime/pack_kernels.h"

#include <set>

#include "backend/backend.h"
#include "base/interrupt.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"

namespace tessera {

void add_kernels(PackWriter& writer, std::span<const Problem> problems, const PackKernelsOptions& options,
                 const std::function<void(size_t, size_t, const std::string&)>& progress) {
  DispatcherOptions settled = options.dispatcher;
  settled.background = false;  // what goes into the pack is final
  Dispatcher dispatcher(settled);
  const auto errors = dispatcher.build(problems, options.jobs, progress);
  throw_if_interrupted();
  for (const std::string& e : errors) {
    if (!e.empty()) throw Error(ErrorCode::compile_failed, e, "no pack was written");
  }
  const auto backend = make_backend(options.dispatcher.device, options.dispatcher.threads);
  KernelCache cache({.directory = options.dispatcher.cache_dir, .packs = options.dispatcher.packs});
  std::set<std::string> seen;
  for (const Problem& p : problems) {
    const Choice& choice = dispatcher.get(p).choice();
    const Source source = render(lower(p), choice.config, backend->arch());
    if (seen.insert(source.symbol).second) writer.add(source, cache.get_or_build(source, *backend).binary);
    if (options.decisions) writer.decide({backend->arch().name, to_string(p), to_string(choice.config)});
  }
}

}  // namespace tessera
