#include "backend/cpu/shared_object.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace tessera {
namespace {

template <class T>
T read_at(std::string_view bytes, uint64_t offset) {
  T out;
  std::memcpy(&out, bytes.data() + offset, sizeof out);
  return out;
}

}  // namespace

std::string why_not_shared_object(std::string_view bytes) {
  if (bytes.empty()) return "no file";
  if (bytes.substr(0, SELFMAG) != ELFMAG) return "a file that is no ELF image";
  const std::string cut = "an ELF image that is cut short";
  if (bytes.size() < sizeof(Elf64_Ehdr)) return cut;
  const auto head = read_at<Elf64_Ehdr>(bytes, 0);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_type != ET_DYN || head.e_machine != EM_X86_64)
    return "an ELF image that is no shared object of x86-64";
  const auto within = [&](uint64_t offset, uint64_t length) {
    return offset <= bytes.size() && length <= bytes.size() - offset;
  };
  if (head.e_phentsize != sizeof(Elf64_Phdr) ||
      !within(head.e_phoff, uint64_t{head.e_phnum} * sizeof(Elf64_Phdr)) ||
      !within(head.e_shoff, uint64_t{head.e_shnum} * head.e_shentsize))
    return cut;
  for (uint64_t i = 0; i < head.e_phnum; ++i) {
    const auto part = read_at<Elf64_Phdr>(bytes, head.e_phoff + i * sizeof(Elf64_Phdr));
    if (part.p_type == PT_LOAD && !within(part.p_offset, part.p_filesz)) return cut;
  }
  return "";
}

}  // namespace tessera
