// The JSON form of an ArchSpec: one table of keys, read and written.
#include <algorithm>
#include <functional>
#include <tuple>

#include "base/embedded.h"
#include "base/text.h"
#include "core/arch_spec.h"
#include "core/json_values.h"

namespace tessera {
namespace {

std::span<const std::string_view> knob_names(std::string_view knob) { return find_config_field(knob)->names; }

template <class T>
std::vector<T> read_words(const Json& j, std::string_view knob) {
  std::vector<T> out;
  for (const Json& item : j.items()) out.push_back(static_cast<T>(read_word(item, knob_names(knob))));
  return out;
}

template <class T>
Json write_words(const std::vector<T>& values, std::string_view knob) {
  Json out = Json::array();
  for (T v : values) out.push(knob_names(knob)[static_cast<size_t>(v)]);
  return out;
}

// What a level of memory says of its size: nothing (DRAM), its bytes, or also those that one core can count
// on.
enum class LevelSize { none, whole, shared };

CacheLevel read_level(const Json& j, LevelSize size) {
  Members m(j);
  CacheLevel out;
  if (size != LevelSize::none) out.bytes = read_count(m.at("bytes"), 1);
  out.bytes_per_cycle = read_number(m.at("bytes_per_cycle"), 0.01);
  if (const Json* share = size == LevelSize::shared ? m.find("bytes_per_core") : nullptr)
    out.bytes_per_core = read_count(*share, 1);
  m.finish();
  return out;
}

Json write_level(const CacheLevel& l, LevelSize size) {
  Json out = Json::object();
  if (size != LevelSize::none) out.set("bytes", l.bytes);
  out.set("bytes_per_cycle", l.bytes_per_cycle);
  if (l.bytes_per_core) out.set("bytes_per_core", l.bytes_per_core);
  return out;
}

// The operand types of a row of instructions: "bf16 bf16 f32" is A, B and accumulator.
Instruction read_types(const Json& j) {
  const auto words = split_words(j.as_string());
  if (words.size() != 3) bad_value("'" + j.as_string() + "' is not 'A B accumulator'");
  DType types[3];
  for (size_t i = 0; i < 3; ++i) {
    auto t = parse_dtype(words[i]);
    if (!t) bad_value("unknown dtype '" + std::string(words[i]) + "'", "one of " + dtype_names());
    types[i] = *t;
  }
  if (!info(types[0]).operand || !info(types[1]).operand || info(types[0]).accumulator != types[2]) {
    bad_value("'" + j.as_string() + "' is not a pair of operand types with their accumulator");
  }
  Instruction out;
  out.a = types[0];
  out.b = types[1];
  out.acc = types[2];
  return out;
}

std::string instruction_types(const Instruction& i) {
  return std::string(to_string(i.a)) + ' ' + std::string(to_string(i.b)) + ' ' +
         std::string(to_string(i.acc));
}

// A row lists shapes for standard and for preshuffled B; without "preshuffle_shapes" they are the same.
void read_instructions(ArchSpec& a, const Json& rows) {
  for (size_t r = 0; r < rows.items().size(); ++r) {
    at("row " + std::to_string(r), [&] {
      Members m(rows.at(r));
      const std::string& name = m.at("name").as_string();
      const double flops = read_number(m.at("flops_per_cycle"), 0);
      std::vector<Triple> shapes, preshuffle;
      for (const Json& s : m.at("shapes").items()) shapes.push_back(read_triple(s));
      const Json* bits = m.find("sum_bits");
      const Json* own = m.find("preshuffle_shapes");
      if (own) {
        for (const Json& s : own->items()) preshuffle.push_back(read_triple(s));
      } else {
        preshuffle = shapes;
      }
      for (const Json& types : m.at("types").items()) {
        Instruction row = read_types(types);
        row.name = name;
        row.flops_per_cycle = flops;
        if (bits) row.sum_bits = static_cast<int>(read_count(*bits, 1));
        auto add = [&](const Triple& shape) {
          std::tie(row.m, row.n, row.k) = std::tuple_cat(shape);
          auto has = [&](const std::vector<Triple>& list) {
            return std::find(list.begin(), list.end(), shape) != list.end();
          };
          row.standard = has(shapes);
          row.preshuffle = has(preshuffle);
          a.instructions.push_back(row);
        };
        for (const Triple& shape : shapes) add(shape);
        for (const Triple& shape : preshuffle) {
          if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) add(shape);
        }
      }
      m.finish({"name", "types", "shapes", "preshuffle_shapes", "flops_per_cycle", "sum_bits"});
    });
  }
}

// Consecutive instructions of one name, types and rate make a row.
Json write_instructions(const ArchSpec& a) {
  Json rows = Json::array();
  for (size_t first = 0; first < a.instructions.size();) {
    const Instruction& head = a.instructions[first];
    size_t last = first;
    Json shapes = Json::array(), preshuffle = Json::array();
    bool same = true;
    for (; last < a.instructions.size(); ++last) {
      const Instruction& i = a.instructions[last];
      if (i.name != head.name || instruction_types(i) != instruction_types(head) ||
          i.flops_per_cycle != head.flops_per_cycle || i.sum_bits != head.sum_bits)
        break;
      if (i.standard) shapes.push(triple_text({i.m, i.n, i.k}));
      if (i.preshuffle) preshuffle.push(triple_text({i.m, i.n, i.k}));
      same &= i.standard == i.preshuffle;
    }
    Json row = Json::object(
        {{"name", head.name}, {"types", Json::array().push(instruction_types(head))}, {"shapes", shapes}});
    if (!same) row.set("preshuffle_shapes", preshuffle);
    row.set("flops_per_cycle", head.flops_per_cycle);
    if (head.sum_bits != Instruction{}.sum_bits) row.set("sum_bits", head.sum_bits);
    rows.push(row);
    first = last;
  }
  return rows;
}

PipelineTraits read_pipeline(const Json& j) {
  Members m(j);
  PipelineTraits out;
  out.pipeline = static_cast<Pipeline>(read_word(m.at("name"), knob_names("pipeline")));
  out.schedulers = read_words<Scheduler>(m.at("schedulers"), "scheduler");
  out.stores = read_words<Store>(m.at("stores"), "store");
  for (const Json& v : m.at("double_buffer").items()) out.double_buffer.push_back(read_int(v, 0, 1));
  for (const Json& v : m.at("smem_bytes").items()) out.smem_bytes.push_back(read_count(v, 1));
  for (const Json& v : m.at("split_image").items()) out.split_image.push_back(read_int(v, 0, 1));
  m.finish({"name", "schedulers", "stores", "double_buffer", "smem_bytes", "split_image"});
  if (out.double_buffer.size() != out.smem_bytes.size())
    bad_value("smem_bytes needs one value for each of double_buffer");
  if (out.schedulers.empty() || out.stores.empty() || out.double_buffer.empty())
    bad_value("an empty list allows nothing");
  return out;
}

Json write_pipeline(const PipelineTraits& p) {
  Json buffers = Json::array(), bytes = Json::array(), images = Json::array();
  for (int v : p.double_buffer) buffers.push(v);
  for (int64_t v : p.smem_bytes) bytes.push(v);
  for (int v : p.split_image) images.push(v);
  return Json::object({{"name", knob_names("pipeline")[static_cast<size_t>(p.pipeline)]},
                       {"schedulers", write_words(p.schedulers, "scheduler")},
                       {"stores", write_words(p.stores, "store")},
                       {"double_buffer", buffers},
                       {"smem_bytes", bytes},
                       {"split_image", images}});
}

Processors read_processors(const Json& j) {
  Members m(j);
  Processors out;
  out.vendor = m.at("vendor").as_string();
  for (const Json& v : m.at("families").items()) out.families.push_back(read_int(v, 0));
  m.finish();
  if (out.vendor.empty() || out.families.empty()) bad_value("a vendor and its families are needed");
  return out;
}

Json write_processors(const Processors& p) {
  Json families = Json::array();
  for (int v : p.families) families.push(v);
  return Json::object({{"vendor", p.vendor}, {"families", families}});
}

// Adds the keys that the file lacks and the architecture it is `like` has; not its models, which know its
// speed.
void inherit(Json& json) {
  const Json* like = json.find("like");
  if (!like) return;
  const EmbeddedFile* base = find_embedded_file("arch/" + like->as_string() + ".json");
  if (!base) bad_value("like: unknown architecture '" + like->as_string() + "'");
  const Json facts = Json::parse(base->text, base->path);
  if (facts.find("like")) bad_value("like: '" + like->as_string() + "' is itself like another");
  for (const auto& [key, value] : facts.members()) {
    if (key != "models" && !json.find(key)) json.set(key, value);
  }
}

enum Needed { always, on_cpu, on_gpu, optional };

struct Key {
  std::string_view name;
  Needed needed;
  std::function<void(ArchSpec&, const Json&)> read;
  std::function<Json(const ArchSpec&)> write;  // null = left out
};

Key count_key(std::string_view name, Needed needed, int ArchSpec::*member, int low) {
  return {name, needed, [=](ArchSpec& a, const Json& j) { a.*member = read_int(j, low); },
          [=](const ArchSpec& a) {
            return needed == optional && a.*member == ArchSpec{}.*member ? Json() : Json(a.*member);
          }};
}

Key strings_key(std::string_view name, Needed needed, std::vector<std::string> ArchSpec::*member) {
  return {name, needed, [=](ArchSpec& a, const Json& j) { a.*member = read_strings(j); },
          [=](const ArchSpec& a) {
            return needed == optional && (a.*member).empty() ? Json() : write_strings(a.*member);
          }};
}

Key level_key(std::string_view name, Needed needed, CacheLevel ArchSpec::*member, LevelSize size) {
  return {name, needed, [=](ArchSpec& a, const Json& j) { a.*member = read_level(j, size); },
          [=](const ArchSpec& a) {
            return (a.*member).bytes_per_cycle == 0 ? Json() : write_level(a.*member, size);
          }};
}

// A triple of numbers, left out at 1x1x1.
Key triple_key(std::string_view name, Triple ArchSpec::*member) {
  return {name, optional, [=](ArchSpec& a, const Json& j) { a.*member = read_triple(j); },
          [=](const ArchSpec& a) {
            return a.*member == Triple{1, 1, 1} ? Json() : Json(triple_text(a.*member));
          }};
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = {
      {"name", always, [](ArchSpec& a, const Json& j) { a.name = j.as_string(); },
       [](const ArchSpec& a) { return Json(a.name); }},
      {"description", always, [](ArchSpec& a, const Json& j) { a.description = j.as_string(); },
       [](const ArchSpec& a) { return Json(a.description); }},
      {"like", optional, [](ArchSpec& a, const Json& j) { a.like = j.as_string(); },
       [](const ArchSpec& a) { return a.like.empty() ? Json() : Json(a.like); }},
      {"models", optional,
       [](ArchSpec& a, const Json& j) {
         a.models = j.as_string();
         if (a.models != a.name && !find_embedded_file("arch/" + a.models + ".json"))
           bad_value("unknown architecture '" + a.models + "'");
       },
       [](const ArchSpec& a) { return a.models == a.name ? Json() : Json(a.models); }},
      {"backend", always,
       [](ArchSpec& a, const Json& j) {
         a.backend = static_cast<BackendKind>(read_word(j, backend_names()));
       },
       [](const ArchSpec& a) { return Json(to_string(a.backend)); }},
      {"families", always, [](ArchSpec& a, const Json& j) { a.families = read_words<Family>(j, "family"); },
       [](const ArchSpec& a) { return write_words(a.families, "family"); }},
      {"clock_ghz", always, [](ArchSpec& a, const Json& j) { a.clock_ghz = read_number(j, 0.1); },
       [](const ArchSpec& a) { return Json(a.clock_ghz); }},
      count_key("compute_units", optional, &ArchSpec::compute_units, 1),
      count_key("rank", on_cpu, &ArchSpec::rank, 1),
      strings_key("features", on_cpu, &ArchSpec::features),
      {"processors", optional, [](ArchSpec& a, const Json& j) { a.processors = read_processors(j); },
       [](const ArchSpec& a) {
         return a.processors.vendor.empty() ? Json() : write_processors(a.processors);
       }},
      strings_key("compile_flags", optional, &ArchSpec::compile_flags),
      count_key("vector_bits", on_cpu, &ArchSpec::vector_bits, 128),
      count_key("vector_registers", on_cpu, &ArchSpec::vector_registers, 8),
      count_key("group_channels", optional, &ArchSpec::group_channels, 0),
      count_key("compute_capability", optional, &ArchSpec::compute_capability, 0),
      count_key("wave_size", on_gpu, &ArchSpec::wave_size, 1),
      count_key("max_threads_per_block", on_gpu, &ArchSpec::max_threads_per_block, 1),
      {"smem_bytes", on_gpu, [](ArchSpec& a, const Json& j) { a.smem_bytes = read_count(j, 1); },
       [](const ArchSpec& a) { return Json(a.smem_bytes); }},
      count_key("registers_per_thread", on_gpu, &ArchSpec::registers_per_thread, 1),
      count_key("max_cluster", optional, &ArchSpec::max_cluster, 1),
      {"f8_encoding", optional,
       [](ArchSpec& a, const Json& j) {
         constexpr std::string_view names[] = {"ocp", "fnuz"};
         a.f8_encoding = names[read_word(j, names)];
       },
       [](const ArchSpec& a) { return a.f8_encoding.empty() ? Json() : Json(a.f8_encoding); }},
      level_key("l1", always, &ArchSpec::l1, LevelSize::whole),
      level_key("l2", always, &ArchSpec::l2, LevelSize::whole),
      level_key("l3", optional, &ArchSpec::l3, LevelSize::shared),
      level_key("dram", always, &ArchSpec::dram, LevelSize::none),
      {"wave_grids", optional,
       [](ArchSpec& a, const Json& j) {
         for (const Json& t : j.items()) a.wave_grids.push_back(read_triple(t));
       },
       [](const ArchSpec& a) {
         if (a.wave_grids.empty()) return Json();
         Json out = Json::array();
         for (const Triple& t : a.wave_grids) out.push(triple_text(t));
         return out;
       }},
      triple_key("min_tile", &ArchSpec::min_tile),
      triple_key("tile_align", &ArchSpec::tile_align),
      triple_key("min_tile_preshuffle", &ArchSpec::min_tile_preshuffle),
      triple_key("tile_align_preshuffle", &ArchSpec::tile_align_preshuffle),
      {"pipelines", optional,
       [](ArchSpec& a, const Json& j) {
         for (size_t i = 0; i < j.items().size(); ++i) {
           a.pipelines.push_back(at("row " + std::to_string(i), [&] { return read_pipeline(j.at(i)); }));
         }
       },
       [](const ArchSpec& a) {
         if (a.pipelines.empty()) return Json();
         Json out = Json::array();
         for (const PipelineTraits& p : a.pipelines) out.push(write_pipeline(p));
         return out;
       }},
      {"instructions", always, read_instructions, write_instructions},
      {"costs", always,
       [](ArchSpec& a, const Json& j) {
         for (const auto& [name, value] : j.members()) {
           a.costs.emplace_back(name, at(name, [&, &v = value] { return read_number(v, 0); }));
         }
       },
       [](const ArchSpec& a) {
         Json out = Json::object();
         for (const auto& [name, value] : a.costs) out.set(name, value);
         return out;
       }},
  };
  return table;
}

}  // namespace

ArchSpec parse_arch(std::string_view json_text, std::string_view origin) {
  Json json = Json::parse(json_text, origin);
  return at(origin, [&] {
    if (!json.is_object()) bad_value("an architecture is a JSON object");
    inherit(json);
    Members members(json);
    ArchSpec a;
    std::vector<std::string> names;
    for (const Key& key : keys()) names.emplace_back(key.name);
    for (const Key& key : keys()) {
      const Json* value = members.find(key.name);
      const bool here =
          key.needed == always || key.needed == (a.backend == BackendKind::cpu ? on_cpu : on_gpu);
      if (!value && here) bad_value("missing key '" + std::string(key.name) + "'");
      if (!value) continue;
      if (!here && key.needed != optional) {
        bad_value("key '" + std::string(key.name) + "' does not belong to backend " +
                  std::string(to_string(a.backend)));
      }
      at(key.name, [&] { key.read(a, *value); });
    }
    members.finish(names);
    if (a.models.empty()) a.models = a.name;
    check_arch(a);
    return a;
  });
}

Json to_json(const ArchSpec& a) {
  Json out = Json::object();
  for (const Key& key : keys()) {
    const bool here = key.needed == always || key.needed == optional ||
                      key.needed == (a.backend == BackendKind::cpu ? on_cpu : on_gpu);
    if (!here) continue;
    Json value = key.write(a);
    if (!value.is_null()) out.set(std::string(key.name), std::move(value));
  }
  return out;
}

}  // namespace tessera
