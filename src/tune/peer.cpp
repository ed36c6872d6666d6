#include "tune/peer.h"

#include <dlfcn.h>

#include <unistd.h>
#include <climits>
#include <cstdlib>

#include "base/fs.h"
#include "base/text.h"
#include "core/gemm_view.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kPrefix = "libtessera_peer_", kSuffix = ".so";

std::vector<std::string> directories() {
  std::vector<std::string> out;
  if (const char* path = std::getenv("TESSERA_PEER_PATH")) {
    for (std::string_view piece : split(path, ':')) {
      if (!piece.empty()) out.emplace_back(piece);
    }
    return out;
  }
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0) return out;
  const std::string text(program, static_cast<size_t>(length));
  out.push_back(text.substr(0, text.rfind('/')) + "/../lib/tessera/peers");
  return out;
}

TsrPeerConv conv_of(const Problem& p) {
  const ConvShape& s = p.conv;
  TsrPeerConv c{};
  c.direction = p.op == Op::conv_bwd_data     ? TSR_PEER_BWD_DATA
                : p.op == Op::conv_bwd_weight ? TSR_PEER_BWD_WEIGHT
                                              : TSR_PEER_FWD;
  c.dims = s.dims;
  c.channels_first = p.layout == Layout::channels_first;
  c.n = s.n;
  c.g = s.g;
  c.c = s.c;
  c.k = s.k;
  for (size_t i = 0; i < ConvShape::kAxes; ++i) {
    c.in[i] = s.in[i];
    c.out[i] = is_conv(p.op) ? s.out(static_cast<int>(i)) : 0;
    c.filter[i] = s.filter[i];
    c.stride[i] = s.stride[i];
    c.dilation[i] = s.dilation[i];
    c.pad_lo[i] = s.pad_lo[i];
    c.pad_hi[i] = s.pad_hi[i];
  }
  return c;
}

}  // namespace

std::vector<std::string> found_peers() {
  std::vector<std::string> names;
  for (const std::string& dir : directories()) {
    for (const std::string& file : list_directory(dir)) {
      if (file.starts_with(kPrefix) && file.ends_with(kSuffix)) {
        names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
      }
    }
  }
  return names;
}

std::shared_ptr<const Peer> Peer::load(const std::string& name) {
  for (const std::string& dir : directories()) {
    const std::string path = dir + "/" + std::string(kPrefix) + name + std::string(kSuffix);
    if (!path_exists(path)) continue;
    // Local: two BLAS libraries in one process must not see each other's symbols.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module) throw Error(ErrorCode::device, "peer '" + name + "' does not load: " + dlerror());
    const auto entry = reinterpret_cast<const TsrPeer* (*)()>(dlsym(module, "tsr_peer"));
    const TsrPeer* peer = entry ? entry() : nullptr;
    if (!peer || peer->abi != TSR_PEER_ABI) {
      throw Error(ErrorCode::device, path + " is not a peer module of this version", "rebuild it");
    }
    return std::shared_ptr<const Peer>(new Peer(name, peer));
  }
  const auto known = found_peers();
  throw Error(ErrorCode::bad_input, "no peer '" + name + "'",
              known.empty()
                  ? "none is beside this program: build it with the peer's development package, or name a "
                    "folder of peer modules in TESSERA_PEER_PATH"
                  : "found: " + join(known, " "));
}

std::optional<PeerKernel> Peer::prepare(const Problem& p, int threads, std::string* why) const {
  if (!p.epilogue.empty() || p.alpha != 1 || p.beta != 0 || p.bias_grad) {
    *why = "only plain products and convolutions are compared";
    return std::nullopt;
  }
  const std::string a(to_string(p.a)), b(to_string(p.b)), out(to_string(p.out));
  const TsrPeerConv conv = conv_of(p);
  const TsrPeerProblem problem{.m = p.m,
                               .n = p.n,
                               .k = p.k,
                               .batch = p.batch,
                               .lda = p.ld_a(),
                               .ldb = p.ld_b(),
                               .ldc = p.ld_c(),
                               .stride_a = p.batch_stride_a(),
                               .stride_b = p.batch_stride_b(),
                               .stride_c = p.batch_stride_c(),
                               .a = a.c_str(),
                               .b = b.c_str(),
                               .out = out.c_str(),
                               .a_row_major = a_is_row_major(p.layout),
                               .b_row_major = b_is_row_major(p.layout),
                               .packed_b = p.prepack_b,
                               .threads = threads,
                               .conv = is_conv(p.op) ? &conv : nullptr};
  char reason[256] = "";
  void* handle = peer_->create(&problem, reason, sizeof reason);
  if (!handle) {
    *why = reason;
    return std::nullopt;
  }
  return PeerKernel(peer_, handle);
}

}  // namespace tessera
