// A learned model's file: the format is told in learned.h.
#include <cstring>

#include "base/hash.h"
#include "model/learned.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "TSRMODEL";
constexpr uint32_t kModelVersion = 2;

void put(std::string& out, const void* data, size_t bytes) {
  out.append(static_cast<const char*>(data), bytes);
}
void put(std::string& out, uint32_t v) { put(out, &v, sizeof v); }

// In the order of the file.
template <class Arrays, class F>
void each_array(Arrays& arrays, const F& f) {
  f(arrays.first_test);
  f(arrays.thresholds);
  f(arrays.roots);
  f(arrays.nodes);
}

// Takes pieces from the front; Error(corrupt) when there is too little.
class Reader {
 public:
  Reader(std::string_view bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {}
  std::string_view take(size_t n) {
    if (n > bytes_.size()) fail();
    const std::string_view piece = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return piece;
  }
  uint32_t number() {
    uint32_t v;
    std::memcpy(&v, take(sizeof v).data(), sizeof v);
    return v;
  }
  template <class T>
  void array(std::vector<T>& out) {
    const size_t count = number();
    const std::string_view from = take(count * sizeof(T));
    out.resize(count);
    if (count) std::memcpy(out.data(), from.data(), from.size());
  }
  ForestRows rows() {
    ForestArrays arrays;
    each_array(arrays, [&](auto& items) { array(items); });
    return ForestRows(std::move(arrays));
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::corrupt, std::string(origin_) + " is not a whole model file", "train it again");
  }

 private:
  std::string_view bytes_, origin_;
};

template <class T>
Json list(const std::vector<T>& items) {
  Json out = Json::array();
  for (const T& item : items) out.push(item);
  return out;
}

std::vector<std::string> texts(const Json& j) {
  std::vector<std::string> out;
  for (const Json& item : j.items()) out.push_back(item.as_string());
  return out;
}

}  // namespace

std::string LearnedModel::bytes() const {
  const std::string header = Json::object({{"arch", scope_.arch},
                                           {"operation", scope_.operation},
                                           {"types", list(scope_.types)},
                                           {"units", list(scope_.units)},
                                           {"families", list(scope_.families)},
                                           {"features", list(names_)},
                                           {"made", made_}})
                                 .dump();
  std::string out(kMagic);
  put(out, kModelVersion);
  put(out, static_cast<uint32_t>(header.size()));
  out += header;
  for (const ForestRows* rows : {&first_, &rest_}) {
    each_array(rows->arrays(), [&](const auto& items) {
      put(out, static_cast<uint32_t>(items.size()));
      put(out, items.data(), items.size() * sizeof items[0]);
    });
  }
  return out + content_hash(out);
}

std::shared_ptr<const LearnedModel> LearnedModel::parse(std::string_view bytes, std::string_view origin) {
  Reader in(bytes, origin);
  if (in.take(kMagic.size()) != kMagic || bytes.size() < kContentHashLength) in.fail();
  const std::string_view checked = bytes.substr(0, bytes.size() - kContentHashLength);
  if (content_hash(checked) != bytes.substr(checked.size())) in.fail();
  if (const uint32_t version = in.number(); version != kModelVersion) {
    throw Error(ErrorCode::unsupported, std::string(origin) + " is of version " + std::to_string(version),
                "train it again");
  }
  const Json header = Json::parse(in.take(in.number()), origin);
  ForestRows first = in.rows(), rest = in.rows();
  ModelScope scope{
      header.at("arch").as_string(), header.at("operation").as_string(), texts(header.at("types")), {}};
  for (const Json& u : header.at("units").items()) scope.units.push_back(static_cast<int>(u.as_int()));
  if (const Json* families = header.find("families")) scope.families = texts(*families);
  return std::shared_ptr<const LearnedModel>(new LearnedModel(
      std::move(scope), texts(header.at("features")), std::move(first), std::move(rest), header.at("made")));
}

}  // namespace tessera
