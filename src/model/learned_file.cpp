// A learned model's file: the format is told in learned.h.
#include <cstring>

#include "base/hash.h"
#include "model/learned.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "TSRMODEL";
constexpr uint32_t kVersion = 1;

static_assert(sizeof(ForestNode) == 8);

void put(std::string& out, const void* data, size_t bytes) {
  out.append(static_cast<const char*>(data), bytes);
}
void put(std::string& out, uint32_t v) { put(out, &v, sizeof v); }

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
  std::vector<T> array(size_t count) {
    if (count > bytes_.size() / sizeof(T)) fail();
    std::vector<T> out(count);
    if (count) std::memcpy(out.data(), take(count * sizeof(T)).data(), count * sizeof(T));
    return out;
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
  put(out, kVersion);
  put(out, static_cast<uint32_t>(header.size()));
  out += header;
  put(out, static_cast<uint32_t>(forest_.trees()));
  put(out, static_cast<uint32_t>(forest_.nodes().size()));
  put(out, forest_.roots().data(), forest_.roots().size_bytes());
  put(out, forest_.nodes().data(), forest_.nodes().size_bytes());
  return out + content_hash(out);
}

std::shared_ptr<const LearnedModel> LearnedModel::parse(std::string_view bytes, std::string_view origin) {
  Reader in(bytes, origin);
  if (in.take(kMagic.size()) != kMagic || bytes.size() < kContentHashLength) in.fail();
  const std::string_view checked = bytes.substr(0, bytes.size() - kContentHashLength);
  if (content_hash(checked) != bytes.substr(checked.size())) in.fail();
  if (const uint32_t version = in.number(); version != kVersion) {
    throw Error(ErrorCode::unsupported, std::string(origin) + " is of version " + std::to_string(version),
                "train it again");
  }
  const Json header = Json::parse(in.take(in.number()), origin);
  const size_t trees = in.number(), count = in.number();
  const auto roots = in.array<uint32_t>(trees);
  const auto nodes = in.array<ForestNode>(count);
  Forest forest;
  for (size_t t = 0; t < trees; ++t) {
    const size_t end = t + 1 < trees ? roots[t + 1] : nodes.size();
    if (roots[t] >= end || end > nodes.size() || (t == 0 && roots[0] != 0)) in.fail();
    forest.add_tree(std::span(nodes).subspan(roots[t], end - roots[t]));
  }
  ModelScope scope{
      header.at("arch").as_string(), header.at("operation").as_string(), texts(header.at("types")), {}};
  for (const Json& u : header.at("units").items()) scope.units.push_back(static_cast<int>(u.as_int()));
  if (const Json* families = header.find("families")) scope.families = texts(*families);
  return std::make_shared<const LearnedModel>(std::move(scope), texts(header.at("features")),
                                              std::move(forest), header.at("made"));
}

}  // namespace tessera
