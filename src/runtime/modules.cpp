#include "runtime/modules.h"

#include <algorithm>

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr BuildInfo::From kFromCache[] = {BuildInfo::From::disk, BuildInfo::From::pack,
                                          BuildInfo::From::compiled};

}  // namespace

std::shared_ptr<Module> Modules::loaded(const std::string& symbol) {
  std::lock_guard lock(mutex_);
  auto found = known_.find(symbol);
  return found == known_.end() ? nullptr : found->second;
}

std::shared_ptr<Module> Modules::get(const Source& source, BuildInfo* info) {
  if (auto module = loaded(source.symbol)) return module;
  const auto start = Clock::now();
  CacheResult result = cache_.get_or_build(source, backend_);
  auto module = load(source, result);
  if (info) {
    info->from = std::max(info->from, kFromCache[static_cast<size_t>(result.from)]);
    info->build_ms += ms_since(start);
  }
  std::lock_guard lock(mutex_);
  return known_.try_emplace(source.symbol, std::move(module)).first->second;
}

// What is whole and does not load, of an older system or of a compiler with other flags, is built anew once.
std::shared_ptr<Module> Modules::load(const Source& source, CacheResult& result) {
  std::string why;
  for (bool again : {false, true}) {
    try {
      return backend_.load(result.binary);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::corrupt) throw;
      why = e.what_happened();
    }
    if (again || result.from == CacheResult::From::compiled) break;
    warn_once("does not load " + source.symbol, why + "; it is built anew");
    result = cache_.build_anew(source, backend_);
  }
  cache_.discard(source, backend_);
  throw Error(ErrorCode::compile_failed, why + " (made by " + backend_.compiler_identity() + ")",
              "name another compiler or other flags in TESSERA_CXX");
}

bool Modules::available(const Source& source, BuildInfo* info) {
  if (loaded(source.symbol)) return true;
  if (!cache_.contains(source, backend_)) return false;
  try {
    get(source, info);
    return true;
  } catch (const Error& e) {
    throw_if_interrupted();
    log(LogLevel::info, e.what());
    return false;
  }
}

}  // namespace tessera
