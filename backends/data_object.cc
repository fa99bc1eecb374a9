#include "backends/data_object.h"

#include <elf.h>

#include <cstddef>
#include <string>

namespace cinn_like {
namespace {

constexpr Elf64_Xword kLarge = 0x10000000;  // SHF_X86_64_LARGE, which not every <elf.h> has
constexpr uint64_t kAlignment = 64;

template <class T>
void Append(std::string& out, const T& v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof(v));
}

void Align(std::string& out, uint64_t to) { out.resize((out.size() + to - 1) / to * to); }

}  // namespace

std::string MakeDataObject(std::string_view symbol, std::string_view bytes) {
  enum : uint8_t { kNull, kData, kStack, kSymbols, kNames, kCount };
  // The section names' and the symbol's strings in one table.
  std::string names(1, '\0');
  const auto name = [&](std::string_view text) {
    const auto at = static_cast<Elf64_Word>(names.size());
    names.append(text).push_back('\0');
    return at;
  };
  Elf64_Shdr sections[kCount] = {};
  sections[kData] = {name(".lrodata"), SHT_PROGBITS, SHF_ALLOC | kLarge, 0, 0, bytes.size(), 0, 0, kAlignment, 0};
  sections[kStack] = {name(".note.GNU-stack"), SHT_PROGBITS, 0, 0, 0, 0, 0, 0, 1, 0};
  sections[kSymbols] = {name(".symtab"), SHT_SYMTAB, 0, 0, 0, 2 * sizeof(Elf64_Sym), kNames, 1, 8, sizeof(Elf64_Sym)};
  sections[kNames] = {name(".strtab"), SHT_STRTAB, 0, 0, 0, 0, 0, 0, 1, 0};
  const Elf64_Sym symbols[2] = {
      {}, {name(symbol), ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), STV_DEFAULT, kData, 0, bytes.size()}};
  sections[kNames].sh_size = names.size();

  std::string out;
  out.reserve(bytes.size() + names.size() + 1024);
  out.resize(sizeof(Elf64_Ehdr));
  Align(out, kAlignment);
  sections[kData].sh_offset = out.size();
  out += bytes;
  Align(out, 8);
  sections[kStack].sh_offset = sections[kSymbols].sh_offset = out.size();
  for (const Elf64_Sym& s : symbols) Append(out, s);
  sections[kNames].sh_offset = out.size();
  out += names;
  Align(out, 8);
  Elf64_Ehdr header{};
  header.e_ident[EI_MAG0] = ELFMAG0, header.e_ident[EI_MAG1] = ELFMAG1;
  header.e_ident[EI_MAG2] = ELFMAG2, header.e_ident[EI_MAG3] = ELFMAG3;
  header.e_ident[EI_CLASS] = ELFCLASS64, header.e_ident[EI_DATA] = ELFDATA2LSB, header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = out.size();
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kCount;
  header.e_shstrndx = kNames;
  out.replace(0, sizeof(header), reinterpret_cast<const char*>(&header), sizeof(header));
  for (const Elf64_Shdr& s : sections) Append(out, s);
  return out;
}

}  // namespace cinn_like
