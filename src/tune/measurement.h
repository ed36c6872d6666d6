// What was measured, on which device, by which version of the program.
#pragma once

#include <string>
#include <vector>

#include "tune/sweep_record.h"

namespace tessera {

struct DeviceInfo {
  std::string arch;
  int units = 0;
  std::string processor;
  bool operator==(const DeviceInfo&) const = default;
};
Json to_json(const DeviceInfo& d);
DeviceInfo device_info_from_json(const Json& j);

struct Measurement {
  DeviceInfo device;
  SweepRecord record;
  std::string tool;  // version of the program that measured
};
Json to_json(const Measurement& m);
Measurement measurement_from_json(const Json& j);

// What the journals of a sweep's directory say. Error(io) when nothing was run there. Lines that are no
// records are left out, and counted in *damaged.
std::vector<Measurement> measurements_of_sweep(const std::string& directory, size_t* damaged = nullptr);
inline constexpr const char* kDeviceFile = "device.json";  // of a sweep's directory

// Text of the kDeviceFile of all `sweeps`, "" when nothing was run in any of them. Error(bad_input) when two
// were measured on different devices.
std::string device_of_sweeps(const std::vector<std::string>& sweeps);

}  // namespace tessera
