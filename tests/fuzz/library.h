// Exported libraries as they are read before any of them is loaded, and artifacts. A text's first character says what
// the rest is:
//
//   F a file; also with a checksum that is right
//   D lines "== name", each followed by that section of a description, in a file
//   A the number of sections and the rest of an artifact behind its header, which is made for it
#pragma once
#include <elf.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/str_split.h"
#include "cinn_like/base/hash.h"
#include "runtime/artifact.h"
#include "runtime/kernel_images.h"
#include "runtime/library_format.h"
#include "tests/fuzz/fuzz.h"

namespace cinn_like::fuzz {

// The smallest file with that note.
inline std::string FileWithNote(const std::string& note) {
  struct {
    Elf64_Ehdr header{};
    Elf64_Phdr segments[2]{};
  } start;
  std::memcpy(start.header.e_ident, ELFMAG, SELFMAG);
  start.header.e_ident[EI_CLASS] = ELFCLASS64;
  start.header.e_ident[EI_DATA] = ELFDATA2LSB;
  start.header.e_machine = EM_X86_64;
  start.header.e_type = ET_DYN;
  start.header.e_phentsize = sizeof(Elf64_Phdr);
  start.header.e_phoff = sizeof(Elf64_Ehdr);
  start.header.e_phnum = 2;
  for (Elf64_Phdr& s : start.segments) {
    s.p_align = 4;
    s.p_offset = sizeof(start);
    s.p_filesz = note.size();
  }
  start.segments[0].p_type = PT_LOAD;
  start.segments[1].p_type = PT_NOTE;
  return std::string(reinterpret_cast<const char*>(&start), sizeof(start)) + note;
}

inline Status TryFile(std::string file, bool seals) {
  if (seals) RETURN_IF_ERROR(SealLibrary(file));
  ASSIGN_OR_RETURN(const LibraryFile read, ReadLibrary(file));
  for (const LibraryFunction& f : read.info.functions) {
    for (const LibraryVariant& v : f.variants) (void)CheckCpu(v.cpu_features);
  }
  std::string again = FileWithNote(EncodeLibraryNote(read.info));
  RETURN_IF_ERROR(Bug(SealLibrary(again), "what a library says, written"));
  const StatusOr<LibraryFile> reread = ReadLibrary(again);
  RETURN_IF_ERROR(Bug(reread.status(), "what a library says, written and read"));
  if (reread->info.Json() != read.info.Json() || reread->info.Describe() != read.info.Describe())
    return Internal("what a library says differs when it is written and read");
  return absl::OkStatus();
}

inline Status TryDescription(std::string_view text) {
  LibraryInfo nothing;
  Artifact artifact;
  const std::vector<std::string> sections = absl::StrSplit(std::string(text), "== ", absl::SkipEmpty());
  for (const std::string& section : sections) {
    const size_t end = std::min(section.find('\n'), section.size());
    artifact.sections[section.substr(0, end)] = section.substr(std::min(end + 1, section.size()));
  }
  if (const auto images = KernelImages::From(artifact); images.ok()) {
    for (const KernelImages::Kernel& k : images->kernels) RET_CHECK(k.image < images->images.size());
  }
  // In place of the artifact of a note that is right.
  std::string note = EncodeLibraryNote(nothing);
  const size_t begin = note.find("CINNLIKE");
  note.replace(begin, note.npos, artifact.Encode("library"));
  Elf64_Nhdr header;
  std::memcpy(&header, note.data(), sizeof(header));
  header.n_descsz = static_cast<Elf64_Word>(note.size() - begin + sizeof(Hash128));
  std::memcpy(note.data(), &header, sizeof(header));
  return TryFile(FileWithNote(note), true);
}

inline Status TryArtifact(std::string_view text) {
  std::string bytes = Artifact{}.Encode("");
  const uint32_t sections = text.empty() ? 0 : static_cast<uint8_t>(text[0]);
  const std::string_view body = text.substr(std::min<size_t>(1, text.size()));
  const uint64_t size = body.size();
  const Hash128 checksum = HashBytes(body);
  std::memcpy(&bytes[12], &sections, sizeof(sections));
  std::memcpy(&bytes[16], &size, sizeof(size));
  std::memcpy(&bytes[24], &checksum, sizeof(checksum));
  bytes.resize(40);
  bytes += body;
  ASSIGN_OR_RETURN(const Artifact artifact, Artifact::Decode(bytes, "library"));
  RETURN_IF_ERROR(Bug(Artifact::Decode(artifact.Encode("library"), "library").status(), "written and read"));
  return KernelImages::From(artifact).status();
}

inline Status TryLibrary(std::string_view text) {
  const std::string_view rest = text.substr(std::min<size_t>(1, text.size()));
  switch (text.empty() ? 0 : text[0]) {
    case 'F':
      if (Status s = TryFile(std::string(rest), false); s.code() == absl::StatusCode::kInternal) return s;
      return TryFile(std::string(rest), true);
    case 'D':
      return TryDescription(rest);
    case 'A':
      return TryArtifact(rest);
    default:
      return InvalidArgument("expected F, D or A first");
  }
}

}  // namespace cinn_like::fuzz
