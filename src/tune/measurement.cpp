#include "tune/measurement.h"

#include "base/fs.h"

namespace tessera {

std::vector<Measurement> measurements_of_sweep(const std::string& directory) {
  const std::string path = directory + "/" + kDeviceFile;
  const Json about = Json::parse(read_file(path), path);
  const DeviceInfo device = device_info_from_json(about.at("device"));
  std::vector<Measurement> out;
  for (SweepRecord& r : SweepResults::read(directory).records())
    out.push_back({device, std::move(r), about.at("tool").as_string()});
  return out;
}

Json to_json(const DeviceInfo& d) {
  return Json::object({{"arch", d.arch}, {"units", d.units}, {"processor", d.processor}});
}

DeviceInfo device_info_from_json(const Json& j) {
  return {j.at("arch").as_string(), static_cast<int>(j.at("units").as_int()), j.at("processor").as_string()};
}

Json to_json(const Measurement& m) {
  return Json::object({{"device", to_json(m.device)}, {"tool", m.tool}, {"record", to_json(m.record)}});
}

Measurement measurement_from_json(const Json& j) {
  return {device_info_from_json(j.at("device")), sweep_record_from_json(j.at("record")),
          j.at("tool").as_string()};
}

}  // namespace tessera
