// A small JSON value. Parsing and printing are nlohmann::json's; the value type is ours so that duplicate
// keys are refused, key order is kept, 64-bit integers stay exact and including this header costs nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // insertion order, keys unique

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool v) : value_(v) {}
  Json(int v) : value_(int64_t{v}) {}
  Json(int64_t v) : value_(v) {}
  Json(uint64_t v);  // Error(bad_input) above INT64_MAX
  Json(double v) : value_(v) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}

  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }
  static Json object(std::initializer_list<std::pair<std::string, Json>> members);

  // `origin` (a file name, say) goes into error texts. Throws Error(bad_input) with line and column on a
  // syntax error, and on a duplicate key.
  static Json parse(std::string_view text, std::string_view origin = "json");

  // indent < 0: one line. Non-finite numbers print as null.
  std::string dump(int indent = -1) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Typed access; Error(bad_input) when the value is of another type.
  bool as_bool() const;
  int64_t as_int() const;
  double as_double() const;
  const std::string& as_string() const;
  const Array& items() const;
  const Object& members() const;

  const Json* find(std::string_view key) const;  // null when absent (or not an object)
  const Json& at(std::string_view key) const;    // Error(bad_input) naming the key when absent
  const Json& at(size_t index) const;
  size_t size() const;

  Json& set(std::string key, Json value);  // replaces or appends; makes a null an object; returns *this
  Json& push(Json value);                  // makes a null an array; returns *this

  bool operator==(const Json& other) const { return value_ == other.value_; }

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace tessera
