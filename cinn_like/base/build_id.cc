#include "cinn_like/base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <string>

namespace cinn_like {
namespace {

// The build id in the notes of one segment.
std::string FindInNotes(const char* notes, size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, notes, sizeof(note));
    const size_t name_size = (note.n_namesz + 3) & ~size_t{3}, value_size = (note.n_descsz + 3) & ~size_t{3};
    if (name_size + value_size > size - sizeof(note)) break;
    const char* name = notes + sizeof(note);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
      return std::string(name + name_size, note.n_descsz);
    }
    notes = name + name_size + value_size;
    size -= sizeof(note) + name_size + value_size;
  }
  return "";
}

// Stops at the loaded file that holds this function.
int Visit(dl_phdr_info* info, size_t, void* result) {
  const auto here = reinterpret_cast<ElfW(Addr)>(&Visit);
  bool is_ours = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) is_ours |= here >= begin && here - begin < segment.p_memsz;
    if (segment.p_type == PT_NOTE && id.empty()) {
      id = FindInNotes(reinterpret_cast<const char*>(begin), segment.p_memsz);
    }
  }
  if (is_ours) *static_cast<std::string*>(result) = std::move(id);
  return is_ours ? 1 : 0;
}

}  // namespace

std::string_view BuildId() {
  static const std::string* id = [] {
    auto* r = new std::string;
    dl_iterate_phdr(Visit, r);
    return r;
  }();
  return *id;
}

}  // namespace cinn_like
