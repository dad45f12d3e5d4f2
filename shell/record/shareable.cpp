// SPDX-License-Identifier: Apache-2.0
#include "record/shareable.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.hpp"

namespace nacre::record {
namespace {

// nacre-report(1) has the same table.
constexpr std::array<std::string_view, 80> kShownNames{
    "BLIS_*",
    "CONDA_PREFIX",
    "CUDA_*",
    "FI_*",
    "FLUX_*",
    "GOMP_*",
    "GOTO_*",
    "GPU_*",
    "GROUP_RANK",
    "HIP_*",
    "HOME",
    "HOSTNAME",
    "HSA_*",
    "HWLOC_*",
    "HYDRA_*",
    "I_MPI_*",
    "KMP_*",
    "KOKKOS_*",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LD_*",
    "LOADEDMODULES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "LSB_*",
    "LUA_*",
    "MALLOC_*",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MKL_*",
    "MODULEPATH",
    "MPICH_*",
    "MPIR_CVAR_*",
    "MV2_*",
    "NACRE_*",
    "NCCL_*",
    "NUMEXPR_*",
    "NVIDIA_*",
    "OLDPWD",
    "OMPI_*",
    "OMP_*",
    "ONEAPI_*",
    "OPENBLAS_*",
    "PATH",
    "PBS_*",
    "PMIX_MCA_*",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMI_ID",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
    "PRTE_*",
    "PSM2_*",
    "PSM3_*",
    "PWD",
    "PYTHONHASHSEED",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "RANK",
    "RCCL_*",
    "ROCR_*",
    "ROLE_RANK",
    "SHELL",
    "SLURMD_*",
    "SLURM_*",
    "SYCL_*",
    "TERM",
    "TMPDIR",
    "TORCHELASTIC_*",
    "TORCH_*",
    "TZ",
    "UCC_*",
    "UCX_*",
    "VIRTUAL_ENV",
    "WORLD_SIZE",
    "XDG_*",
    "ZE_*",
};

constexpr std::array<std::string_view, 14> kSecretWords{
    "AUTH",  "BEARER",     "COOKIE", "CREDENTIAL", "CRED_",   "JWT",    "KEY",
    "NONCE", "PASSPHRASE", "PASSWD", "PASSWORD",   "PRIVATE", "SECRET", "TOKEN",
};

// Parts of names, between characters that are no letters.
constexpr std::array<std::string_view, 3> kSecretParts{"PASS", "PWD", "PW"};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool is_of_name(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'; }

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool has_part(std::string_view name, std::string_view part) {
  for (std::size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    bool begins = at == 0 || !is_letter(name[at - 1]);
    bool ends = at + part.size() == name.size() || !is_letter(name[at + part.size()]);
    if (begins && ends) return true;
  }
  return false;
}

bool is_listed(std::string_view name) {
  return std::any_of(kShownNames.begin(), kShownNames.end(), [&](std::string_view each) {
    return each.ends_with('*') ? name.starts_with(each.substr(0, each.size() - 1)) : name == each;
  });
}

struct Range {
  std::size_t begin = 0, end = 0;
};

// The part between "://" and '@', if there is a ':' in it.
std::optional<Range> user_of_url(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find("://", from); at != std::string_view::npos; at = text.find("://", at + 1)) {
    std::size_t begin = at + 3;
    std::size_t end = text.find_first_of("/?# \t\n'\"", begin);
    std::string_view authority = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    std::size_t sign = authority.rfind('@');
    if (sign != std::string_view::npos && authority.substr(0, sign).find(':') != std::string_view::npos)
      return Range{begin, begin + sign};
  }
  return std::nullopt;
}

// "KeyError: 'x'" is no secret.
bool is_name_of_error(std::string_view name) {
  return name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Warning");
}

// A secret's name, one of these signs, and a value: where the value is.
std::optional<Range> named_value(std::string_view text, std::size_t from, std::string_view signs) {
  for (std::size_t at = text.find_first_of(signs, from); at != std::string_view::npos;
       at = text.find_first_of(signs, at + 1)) {
    std::size_t end = at;
    if (end > 0 && (text[end - 1] == '"' || text[end - 1] == '\'')) --end;
    std::size_t begin = end;
    while (begin > 0 && is_of_name(text[begin - 1])) --begin;
    std::string_view name = text.substr(begin, end - begin);
    if (!is_secret_name(name) || is_name_of_error(name)) continue;
    std::size_t value = at + 1;
    while (value < text.size() && is_blank(text[value])) ++value;
    // "Authorization: Bearer X" has two words; no value has a line's end in it.
    bool has_words = text[at] == ':' && value > at + 1;
    std::size_t behind = text.find_first_of(has_words ? "\n" : " \t\n,;&", value);
    if (behind == std::string_view::npos) behind = text.size();
    if (behind > value && text.substr(value, behind - value) != kLeftOut) return Range{value, behind};
  }
  return std::nullopt;
}

// A JSON web token, or the text of a private key: where it is.
std::optional<Range> bare_secret(std::string_view text, std::size_t from) {
  constexpr std::string_view kToken = "eyJ";
  constexpr std::size_t kLeastToken = 30;
  for (std::size_t at = text.find(kToken, from); at != std::string_view::npos; at = text.find(kToken, at + 1)) {
    std::size_t end = at;
    while (end < text.size() && is_of_name(text[end])) ++end;
    std::string_view token = text.substr(at, end - at);
    if (token.size() >= kLeastToken && token.find('.') != std::string_view::npos) return Range{at, end};
  }
  std::size_t key = text.find("-----BEGIN ", from);
  if (key == std::string_view::npos || text.find("PRIVATE KEY", key) == std::string_view::npos) return std::nullopt;
  std::size_t end = text.find("-----END ", key);
  return Range{key, end == std::string_view::npos ? text.size() : end};
}

std::string option_name(std::string_view word) {
  std::size_t begin = word.find_first_not_of('-');
  return std::string(begin == std::string_view::npos ? std::string_view() : word.substr(begin));
}

}  // namespace

std::span<const std::string_view> shown_names() { return kShownNames; }

std::span<const std::string_view> secret_words() { return kSecretWords; }

bool is_secret_name(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), upper);
  std::replace(text.begin(), text.end(), '-', '_');
  if (text == "PWD" || text == "OLDPWD") return false;  // the working directory
  auto is_in = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  return std::any_of(kSecretWords.begin(), kSecretWords.end(), is_in) ||
         std::any_of(kSecretParts.begin(), kSecretParts.end(),
                     [&](std::string_view part) { return has_part(text, part); });
}

// A ':' is between the directories of a path, too.
bool may_show(std::string_view name, std::string_view value) {
  if (!is_listed(name) || is_secret_name(name) || value.size() > kMaxShownValue) return false;
  return !user_of_url(value, 0) && !bare_secret(value, 0) && !named_value(value, 0, "=");
}

std::string text_without_secrets(std::string_view text) {
  std::string out(text);
  auto named = [](std::string_view in, std::size_t from) { return named_value(in, from, "=:"); };
  for (std::optional<Range> (*find)(std::string_view, std::size_t) : {+user_of_url, +bare_secret, +named}) {
    for (auto found = find(out, 0); found; found = find(out, found->begin + kLeftOut.size()))
      out.replace(found->begin, found->end - found->begin, kLeftOut);
  }
  return out;
}

std::vector<std::string> words_without_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool hides_next = false;
  for (const std::string& word : words) {
    bool hides = hides_next && !word.starts_with('-');
    hides_next = word.starts_with('-') && word.find('=') == std::string::npos && is_secret_name(option_name(word));
    out.push_back(hides ? std::string(kLeftOut) : text_without_secrets(word));
  }
  return out;
}

Json json_without_secrets(const Json& value) {
  if (value.is_string()) return text_without_secrets(value.get_ref<const std::string&>());
  if (value.is_array()) {
    bool is_text = std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_string(); });
    if (is_text) return words_without_secrets(value.get<std::vector<std::string>>());
    Json out = Json::array();
    for (const Json& each : value) out.push_back(json_without_secrets(each));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [name, member] : value.items()) {
    bool hides = is_secret_name(name) && (member.is_string() || member.is_number());
    out[name] = hides ? Json(kLeftOut) : json_without_secrets(member);
  }
  return out;
}

}  // namespace nacre::record
