#include "tune/measurement.h"

#include "base/fs.h"
#include "tessera/error.h"

namespace tessera {

std::vector<Measurement> measurements_of_sweep(const std::string& directory, size_t* damaged) {
  const std::string path = directory + "/" + kDeviceFile;
  const Json about = Json::parse(read_file(path), path);
  const DeviceInfo device = device_info_from_json(about.at("device"));
  std::vector<Measurement> out;
  SweepResults results = SweepResults::read(directory);
  if (damaged) *damaged += results.damaged();
  for (SweepRecord& r : std::move(results).records())
    out.push_back({device, std::move(r), about.at("tool").as_string()});
  return out;
}

std::string device_of_sweeps(const std::vector<std::string>& sweeps) {
  std::string text, first;
  for (const std::string& sweep : sweeps) {
    const std::string path = sweep + "/" + kDeviceFile;
    if (!path_exists(path)) continue;
    const std::string other = read_file(path);
    if (text.empty()) {
      text = other;
      first = path;
      continue;
    }
    const Json here = Json::parse(text, first).at("device"), there = Json::parse(other, path).at("device");
    if (device_info_from_json(here) == device_info_from_json(there)) continue;
    throw Error(ErrorCode::bad_input, first + " says " + here.dump() + ", and " + path + " " + there.dump(),
                "merge sweeps of one device; a database holds those of several");
  }
  return text;
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
