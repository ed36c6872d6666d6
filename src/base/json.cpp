#include "tessera/json.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "tessera/error.h"

namespace tessera {
namespace {

[[noreturn]] void wrong_type(const char* wanted) {
  throw Error(ErrorCode::bad_input, std::string("JSON value is not ") + wanted);
}

// Builds a Json from nlohmann's event stream; the DOM parser would keep the last of two equal keys in
// silence.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view origin) : origin_(origin) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(Json()); }
  bool boolean(bool v) override { return add(Json(v)); }
  bool number_integer(number_integer_t v) override { return add(Json(int64_t{v})); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<uint64_t>(INT64_MAX)) fail("integer exceeds 64 bits");
    return add(Json(static_cast<int64_t>(v)));
  }
  bool number_float(number_float_t v, const string_t&) override { return add(Json(v)); }
  bool string(string_t& v) override { return add(Json(std::move(v))); }
  bool binary(binary_t&) override { fail("binary value"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& v) override {
    if (stack_.back().value.find(v)) fail("duplicate key '" + v + "'");
    stack_.back().key = std::move(v);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
    fail(e.what());
  }

 private:
  struct Open {
    Json value;
    std::string key;  // of the member being read
  };

  // Of the library's own text what follows its "[json.exception.parse_error.101] ".
  [[noreturn]] void fail(std::string why) const {
    if (const size_t end = why.find("] "); why.starts_with("[json.exception") && end != why.npos)
      why.erase(0, end + 2);
    throw Error(ErrorCode::bad_input, origin_ + ": " + why, "mend the JSON text");
  }
  bool add(Json v) {
    if (stack_.empty()) {
      root_ = std::move(v);
    } else if (stack_.back().value.is_object()) {
      stack_.back().value.set(std::move(stack_.back().key), std::move(v));
    } else {
      stack_.back().value.push(std::move(v));
    }
    return true;
  }
  bool open(Json v) {
    if (stack_.size() >= 200) fail("nested deeper than 200 levels");
    stack_.push_back({std::move(v), {}});
    return true;
  }
  bool close() {
    Json done = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(done));
  }

  std::string origin_;
  std::vector<Open> stack_;
  Json root_;
};

nlohmann::ordered_json to_library(const Json& v) {
  using Out = nlohmann::ordered_json;
  if (v.is_null()) return nullptr;
  if (v.is_bool()) return v.as_bool();
  if (v.is_int()) return v.as_int();
  if (v.is_number()) return std::isfinite(v.as_double()) ? Out(v.as_double()) : Out(nullptr);
  if (v.is_string()) return v.as_string();
  if (v.is_array()) {
    Out out = Out::array();
    for (const Json& item : v.items()) out.push_back(to_library(item));
    return out;
  }
  Out out = Out::object();
  for (const auto& [key, value] : v.members()) out[key] = to_library(value);
  return out;
}

}  // namespace

Json::Json(uint64_t v) : value_(static_cast<int64_t>(v)) {
  if (v > INT64_MAX) throw Error(ErrorCode::bad_input, "JSON integers end at 9223372036854775807");
}

Json Json::object(std::initializer_list<std::pair<std::string, Json>> members) {
  Json out = object();
  for (const auto& [key, value] : members) out.set(key, value);
  return out;
}

Json Json::parse(std::string_view text, std::string_view origin) {
  Builder builder{origin};
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string Json::dump(int indent) const {
  return to_library(*this).dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool Json::as_bool() const {
  if (!is_bool()) wrong_type("a boolean");
  return std::get<bool>(value_);
}

int64_t Json::as_int() const {
  if (!is_int()) wrong_type("an integer");
  return std::get<int64_t>(value_);
}

double Json::as_double() const {
  if (is_int()) return static_cast<double>(std::get<int64_t>(value_));
  if (!is_number()) wrong_type("a number");
  return std::get<double>(value_);
}

const std::string& Json::as_string() const {
  if (!is_string()) wrong_type("a string");
  return std::get<std::string>(value_);
}

const Json::Array& Json::items() const {
  if (!is_array()) wrong_type("an array");
  return std::get<Array>(value_);
}

const Json::Object& Json::members() const {
  if (!is_object()) wrong_type("an object");
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& [name, value] : std::get<Object>(value_)) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (!is_object()) wrong_type("an object");
  if (const Json* found = find(key)) return *found;
  throw Error(ErrorCode::bad_input, "missing key '" + std::string(key) + "'");
}

const Json& Json::at(size_t index) const {
  const Array& all = items();
  if (index >= all.size())
    throw Error(ErrorCode::bad_input, "array index " + std::to_string(index) + " out of range");
  return all[index];
}

size_t Json::size() const {
  if (is_array()) return items().size();
  if (is_object()) return members().size();
  return 0;
}

Json& Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  if (!is_object()) wrong_type("an object");
  auto& all = std::get<Object>(value_);
  for (auto& [name, old] : all) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  all.emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  if (!is_array()) wrong_type("an array");
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

}  // namespace tessera
