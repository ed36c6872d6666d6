// Peers: other libraries, loaded from modules when they are there, to measure against.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/problem.h"
#include "tune/peer_abi.h"

namespace tessera {

// One problem prepared by a peer.
class PeerKernel {
 public:
  PeerKernel(const TsrPeer* peer, void* handle) : peer_(peer), handle_(handle) {}
  PeerKernel(PeerKernel&& other) noexcept : peer_(other.peer_), handle_(other.handle_) {
    other.handle_ = nullptr;
  }
  PeerKernel& operator=(PeerKernel&&) = delete;
  ~PeerKernel() {
    if (handle_) peer_->destroy(handle_);
  }

  void pack_b(const void* b) const { peer_->pack_b(handle_, b); }
  void run(const void* a, const void* b, void* c) const { peer_->run(handle_, a, b, c); }

 private:
  const TsrPeer* peer_;
  void* handle_;
};

class Peer {
 public:
  // Error(bad_input) naming the peers that were found when there is none of that name; Error(device) when its
  // library does not load.
  static std::shared_ptr<const Peer> load(const std::string& name);

  const std::string& name() const { return name_; }
  std::string description() const { return peer_->description(); }

  // nullopt with the reason in *why when the library does not offer it. A problem with prepack=b is timed on
  // B in the library's own packed order.
  std::optional<PeerKernel> prepare(const Problem& problem, int threads, std::string* why) const;

 private:
  Peer(std::string name, const TsrPeer* peer) : name_(std::move(name)), peer_(peer) {}

  std::string name_;
  const TsrPeer* peer_;  // the module stays loaded: such libraries do not survive being unloaded
};

// Names of the modules found in TESSERA_PEER_PATH, or beside the program in ../lib/tessera/peers.
std::vector<std::string> found_peers();

}  // namespace tessera
