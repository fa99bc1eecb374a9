// What the command-line tools share: files or the standard streams, and how errors end a program.
#pragma once
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "cinn_like/base/status.h"

namespace cinn_like {

// The whole of a file; "-" is standard input.
inline StatusOr<std::string> ReadInput(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(Cat("can't read '", path, "'"));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// "-" is standard output.
inline Status WriteOutput(const std::string& path, const std::string& content) {
  if (path == "-") {
    std::cout << content << std::flush;
    return std::cout ? absl::OkStatus() : absl::UnavailableError("can't write to standard output");
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(Cat("can't write '", path, "'"));
}

// The exit code.
inline int Finish(const char* program, const Status& status) {
  if (status.ok()) return 0;
  std::cerr << program << ": " << Message(status) << "\n";
  return 1;
}

// The one positional argument that gflags leaves, or standard input.
inline StatusOr<std::string> InputPath(int argc, char** argv) {
  if (argc > 2) return InvalidArgument("expected one input file and got ", argc - 1);
  return std::string(argc == 2 ? argv[1] : "-");
}

}  // namespace cinn_like
