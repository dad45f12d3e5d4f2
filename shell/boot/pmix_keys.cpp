// SPDX-License-Identifier: Apache-2.0
#include "boot/pmix_keys.hpp"

#ifdef NACRE_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>

namespace nacre::boot {
namespace {

// clang-format off
#define NACRE_PMIX_FUNCTIONS(X) \
  X(PMIx_Init) X(PMIx_Finalize) X(PMIx_Put) X(PMIx_Commit) X(PMIx_Fence) X(PMIx_Get) X(PMIx_Error_string)
// clang-format on

struct PmixLibrary {
#define NACRE_DECLARE(name) decltype(&::name) name = nullptr;
  NACRE_PMIX_FUNCTIONS(NACRE_DECLARE)
#undef NACRE_DECLARE

  static Result<PmixLibrary> load(const char* library);
  [[nodiscard]] Error error(std::string_view what, pmix_status_t status) const {
    return Error{EIO, fmt::format("PMIx: {}: {}", what, PMIx_Error_string(status))};
  }
};

template <typename Function>
Result<void> find_pmix_function(void* library, const char* soname, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    return Error{ENOENT, fmt::format("{} has no {}; PMIx 4 or later is needed", soname, name)};
  return {};
}

Result<PmixLibrary> PmixLibrary::load(const char* library) {
  // Global, as its own parts look for its functions among all that are loaded. Never unmapped, as it had threads.
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error{ENOENT, fmt::format("cannot load {} (Debian's package libpmix2): {}", library,
                                     why != nullptr ? why : "unknown")};
  }
  PmixLibrary out;
#define NACRE_FIND(name) CHECK_OK(find_pmix_function(handle, library, #name, out.name));
  NACRE_PMIX_FUNCTIONS(NACRE_FIND)
#undef NACRE_FIND
  return out;
}

class PmixKeys final : public Keys, Noncopyable {
 public:
  static Result<std::unique_ptr<Keys>> open(const char* library) {
    PmixLibrary loaded = TRY(PmixLibrary::load(library));
    std::unique_ptr<PmixKeys> out(new PmixKeys(loaded));
    pmix_status_t status = out->pmix_.PMIx_Init(&out->self_, nullptr, 0);
    if (status != PMIX_SUCCESS) return out->pmix_.error("init", status);
    out->begun_ = true;
    pmix_value_t* size = TRY(out->look_up(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
    out->size_ = size->data.uint32;
    bool is_number = size->type == PMIX_UINT32;
    std::free(size);
    if (!is_number || out->self_.rank >= out->size_)
      return invalid("PMIx: the server does not give the number of processes");
    return std::unique_ptr<Keys>(std::move(out));
  }
  ~PmixKeys() override {
    if (begun_) pmix_.PMIx_Finalize(nullptr, 0);
  }

  [[nodiscard]] std::uint32_t rank() const override { return self_.rank; }
  [[nodiscard]] std::uint32_t size() const override { return size_; }

  Result<void> put(std::string_view key, std::string_view text) override {
    std::string copy(text);
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = copy.data();
    pmix_status_t status = pmix_.PMIx_Put(PMIX_GLOBAL, std::string(key).c_str(), &value);
    transport::wipe(copy);
    if (status != PMIX_SUCCESS) return pmix_.error(fmt::format("put of {}", key), status);
    return {};
  }

  Result<void> barrier() override {
    pmix_status_t status = pmix_.PMIx_Commit();
    if (status != PMIX_SUCCESS) return pmix_.error("commit", status);
    pmix_info_t collect{};
    std::strncpy(collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    status = pmix_.PMIx_Fence(nullptr, 0, &collect, 1);
    if (status != PMIX_SUCCESS) return pmix_.error("fence", status);
    return {};
  }

  Result<std::string> get(std::uint32_t owner, std::string_view key) override {
    pmix_value_t* value = TRY(look_up(owner, std::string(key).c_str()));
    bool is_text = value->type == PMIX_STRING && value->data.string != nullptr;
    std::string text = is_text ? value->data.string : "";
    if (is_text) {
      ::explicit_bzero(value->data.string, std::strlen(value->data.string));
      std::free(value->data.string);
    }
    std::free(value);
    if (!is_text) return invalid(fmt::format("PMIx: {} of rank {} is no text", key, owner));
    return text;
  }

  Result<void> finish() override {
    if (!std::exchange(begun_, false)) return {};
    pmix_status_t status = pmix_.PMIx_Finalize(nullptr, 0);
    if (status != PMIX_SUCCESS) return pmix_.error("finalize", status);
    return {};
  }

 private:
  explicit PmixKeys(PmixLibrary library) : pmix_(library) {}

  // The caller frees the value.
  Result<pmix_value_t*> look_up(pmix_rank_t owner, const char* key) const {
    pmix_proc_t proc = self_;
    proc.rank = owner;
    pmix_value_t* value = nullptr;
    pmix_status_t status = pmix_.PMIx_Get(&proc, key, nullptr, 0, &value);
    if (status != PMIX_SUCCESS || value == nullptr) return pmix_.error(fmt::format("get of {}", key), status);
    return value;
  }

  PmixLibrary pmix_;
  pmix_proc_t self_{};
  std::uint32_t size_ = 0;
  bool begun_ = false;
};

}  // namespace

Result<std::unique_ptr<Keys>> open_pmix_keys(const char* library) { return PmixKeys::open(library); }

}  // namespace nacre::boot

#else

namespace nacre::boot {

Result<std::unique_ptr<Keys>> open_pmix_keys(const char* /*library*/) {
  return Error{ENOENT, "this nacre was built where PMIx was not installed (Debian's package libpmix-dev)"};
}

}  // namespace nacre::boot

#endif
