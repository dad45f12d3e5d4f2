// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/core_module.hpp"

#ifdef NACRE_HAVE_LIBDW
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>

#include <memory>

#include "base/unique_fd.hpp"
#endif

namespace nacre::plugins {

#ifdef NACRE_HAVE_LIBDW
namespace {

constexpr const char* kLibdw = "libdw.so.1";

struct CloseLibdw {
  void operator()(void* handle) const { ::dlclose(handle); }
};

// The functions that are used, of libdw and of libelf, which it needs.
struct DwflFunctions {
  decltype(&::elf_version) elf_version;
  decltype(&::elf_begin) elf_begin;
  decltype(&::elf_end) elf_end;
  decltype(&::dwfl_begin) begin;
  decltype(&::dwfl_end) end;
  decltype(&::dwfl_core_file_report) core_file_report;
  decltype(&::dwfl_report_end) report_end;
  decltype(&::dwfl_core_file_attach) core_file_attach;
  decltype(&::dwfl_getthreads) getthreads;
  decltype(&::dwfl_thread_getframes) thread_getframes;
  decltype(&::dwfl_frame_pc) frame_pc;
  decltype(&::dwfl_addrmodule) addrmodule;
  decltype(&::dwfl_module_info) module_info;
};

template <typename Function>
bool found_in(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool all_found_in(void* library, DwflFunctions& f) {
  return found_in(library, "elf_version", f.elf_version) && found_in(library, "elf_begin", f.elf_begin) &&
         found_in(library, "elf_end", f.elf_end) && found_in(library, "dwfl_begin", f.begin) &&
         found_in(library, "dwfl_end", f.end) && found_in(library, "dwfl_core_file_report", f.core_file_report) &&
         found_in(library, "dwfl_report_end", f.report_end) &&
         found_in(library, "dwfl_core_file_attach", f.core_file_attach) &&
         found_in(library, "dwfl_getthreads", f.getthreads) &&
         found_in(library, "dwfl_thread_getframes", f.thread_getframes) &&
         found_in(library, "dwfl_frame_pc", f.frame_pc) && found_in(library, "dwfl_addrmodule", f.addrmodule) &&
         found_in(library, "dwfl_module_info", f.module_info);
}

// Nothing is looked for beyond the dump, above all no debug information, for which libdw would ask servers.
int no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; }
int no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
  return -1;
}

struct CrashPlace {
  const DwflFunctions& dwfl;
  Dwarf_Addr address = 0;
};

int take_frame(Dwfl_Frame* frame, void* of) {
  auto* place = static_cast<CrashPlace*>(of);
  place->dwfl.frame_pc(frame, &place->address, nullptr);
  return DWARF_CB_ABORT;  // the first frame is enough
}

// The kernel writes the thread first that got the signal.
int take_thread(Dwfl_Thread* thread, void* of) {
  static_cast<CrashPlace*>(of)->dwfl.thread_getframes(thread, take_frame, of);
  return DWARF_CB_ABORT;
}

std::string module_in(const DwflFunctions& f, Dwfl* dwfl, Elf* elf) {
  if (f.core_file_report(dwfl, elf, nullptr) < 0 || f.report_end(dwfl, nullptr, nullptr) != 0) return "";
  if (f.core_file_attach(dwfl, elf) < 0) return "";
  CrashPlace place{f};
  f.getthreads(dwfl, take_thread, &place);
  Dwfl_Module* module = place.address != 0 ? f.addrmodule(dwfl, place.address) : nullptr;
  if (module == nullptr) return "";
  const char* name = f.module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return name != nullptr ? name : "";
}

}  // namespace

std::string core_module(const std::string& core) {
  std::unique_ptr<void, CloseLibdw> library(::dlopen(kLibdw, RTLD_NOW | RTLD_LOCAL));
  DwflFunctions f{};
  if (!library || !all_found_in(library.get(), f) || f.elf_version(EV_CURRENT) == EV_NONE) return "";
  UniqueFd fd(::open(core.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return "";
  std::unique_ptr<Elf, decltype(f.elf_end)> elf(f.elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr), f.elf_end);
  Dwfl_Callbacks callbacks{};
  callbacks.find_elf = no_elf;
  callbacks.find_debuginfo = no_debuginfo;
  std::unique_ptr<Dwfl, decltype(f.end)> dwfl(elf ? f.begin(&callbacks) : nullptr, f.end);
  return dwfl ? module_in(f, dwfl.get(), elf.get()) : "";
}
#else
std::string core_module(const std::string& /*core*/) { return ""; }
#endif

}  // namespace nacre::plugins
