// From a class to the C interface of a peer module:
//
//   struct Mine {
//     static std::string description();
//     static constexpr bool kConvolutions = true;  // left out where it has products of matrices only
//     explicit Mine(const TsrPeerProblem&);      // throws Unsupported
//     void pack_b(const void* b);
//     void run(const void* a, const void* b, void* c);
//   };
//   TSR_PEER_MODULE(Mine)
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tune/peer_abi.h"

namespace tsr_peer_impl {

struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline bool all_are(const TsrPeerProblem& p, std::string_view type) {
  return p.a == type && p.b == type && p.out == type;
}

template <class T>
const TsrPeer* table() {
  static const TsrPeer peer = {
      TSR_PEER_ABI,
      [] {
        static const std::string text = T::description();
        return text.c_str();
      },
      [](const TsrPeerProblem* problem, char* why, size_t size) -> void* {
        try {
          if constexpr (!requires { T::kConvolutions; }) {
            if (problem->conv) throw Unsupported("products of matrices only");
          }
          return new T(*problem);
        } catch (const std::exception& e) {
          std::snprintf(why, size, "%s", e.what());
          return nullptr;
        }
      },
      [](void* handle, const void* b) { static_cast<T*>(handle)->pack_b(b); },
      [](void* handle, const void* a, const void* b, void* c) { static_cast<T*>(handle)->run(a, b, c); },
      [](void* handle) { delete static_cast<T*>(handle); }};
  return &peer;
}

}  // namespace tsr_peer_impl

#define TSR_PEER_MODULE(T) \
  extern "C" const TsrPeer* tsr_peer(void) { return tsr_peer_impl::table<T>(); }
