// A generated shared object in this process.
#pragma once

#include <string>

#include "backend/backend.h"

namespace tessera {

class CpuModule : public Module {
 public:
  using Entry = void (*)(const void* args);

  explicit CpuModule(const Binary& binary);
  ~CpuModule() override;
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;

  Entry entry() const { return entry_; }

 private:
  void* handle_ = nullptr;
  Entry entry_ = nullptr;
};

}  // namespace tessera
