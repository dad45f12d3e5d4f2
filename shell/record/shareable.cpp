// SPDX-License-Identifier: Apache-2.0
#include "record/shareable.hpp"

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

constexpr std::array<std::string_view, 15> kSecretWords{
    "AUTH",       "BEARER", "COOKIE",   "CREDENTIAL", "CRED_",  "JWT",       "KEY",   "NONCE",
    "PASSPHRASE", "PASSWD", "PASSWORD", "PRIVATE",    "SECRET", "SIGNATURE", "TOKEN",
};

// Parts of names, between characters that are no letters.
constexpr std::array<std::string_view, 4> kSecretParts{"PASS", "PWD", "PW", "SIG"};

// How tokens of services begin, as the services publish it so that scanners find them, and how many characters
// follow at least. A beginning with "/" is an address that is itself the secret.
struct TokenStart {
  std::string_view start;
  std::size_t least;
};

constexpr std::array<TokenStart, 75> kTokenStarts{{
    {"AGE-SECRET-KEY-1", 30},  // age
    {"ABIA", 16},              // Amazon Web Services, as the next three
    {"ACCA", 16},
    {"AKIA", 16},
    {"ASIA", 16},
    {"AIza", 30},  // Google, as the next two
    {"GOCSPX-", 20},
    {"ya29.", 20},
    {"ATATT3", 30},     // Atlassian
    {"ATBB", 24},       // Bitbucket
    {"CCIPAT_", 20},    // CircleCI
    {"dapi", 32},       // Databricks
    {"dp.pt.", 30},     // Doppler
    {"dckr_pat_", 20},  // Docker
    {"dop_v1_", 32},    // DigitalOcean, as the next two
    {"doo_v1_", 32},
    {"dor_v1_", 32},
    {"figd_", 20},  // Figma
    {"fo1_", 30},   // Fly.io, as the next one
    {"FlyV1", 20},
    {"ghp_", 30},  // GitHub, as the next five
    {"gho_", 30},
    {"ghu_", 30},
    {"ghs_", 30},
    {"ghr_", 30},
    {"github_pat_", 30},
    {"glpat-", 16},  // GitLab, as the next eight
    {"glptt-", 16},
    {"gldt-", 16},
    {"glrt-", 16},
    {"glft-", 16},
    {"glcbt-", 16},
    {"glimt-", 16},
    {"glagent-", 16},
    {"glsoat-", 16},
    {"glsa_", 20},  // Grafana, as the next one
    {"glc_", 32},
    {"gsk_", 30},  // Groq
    {"hf_", 20},   // Hugging Face, as the next one
    {"api_org_", 20},
    {"hvs.", 20},  // Vault, as the next two
    {"hvb.", 20},
    {"hvr.", 20},
    {"lin_api_", 30},     // Linear
    {"npm_", 30},         // npm
    {"nvapi-", 20},       // NVIDIA
    {"ops_eyJ", 30},      // 1Password
    {"pplx-", 30},        // Perplexity
    {"PMAK-", 20},        // Postman
    {"pscale_tkn_", 20},  // PlanetScale, as the next one
    {"pscale_pw_", 20},
    {"pul-", 40},       // Pulumi
    {"pypi-AgE", 30},   // PyPI
    {"r8_", 30},        // Replicate
    {"rubygems_", 30},  // RubyGems
    {"sbp_", 30},       // Supabase
    {"SG.", 30},        // SendGrid
    {"shpat_", 30},     // Shopify, as the next two
    {"shpss_", 30},
    {"shpca_", 30},
    {"sk-", 16},       // OpenAI, Anthropic and others
    {"sk_live_", 16},  // Stripe, as the next three
    {"sk_test_", 16},
    {"rk_live_", 16},
    {"whsec_", 16},
    {"sntrys_", 30},  // Sentry, as the next one
    {"sntryu_", 30},
    {"tskey-", 16},  // Tailscale
    {"xai-", 30},    // xAI
    {"xapp-", 16},   // Slack, as the next two
    {"xox", 12},
    {"hooks.slack.com/", 20},
    {"discord.com/api/webhooks/", 20},  // Discord
    {"discordapp.com/api/webhooks/", 20},
    {"webhook.office.com/", 20},  // Teams
}};

// Options of programs whose values are passwords although their names do not say so. A `*` at the end of a
// program's name stands for any end.
struct SecretOption {
  enum class Value {
    attached,  // "-pVALUE"
    next,      // "-p VALUE", and "-pVALUE"
    of_user,   // the same, but only where it is "USER:PASSWORD"
  };
  std::string_view program, option;
  Value value;
};

constexpr std::size_t kLeastTokenOfUrl = 20;  // a text of so many characters before the '@' of a URL is no user's
                                              // name

constexpr std::array<SecretOption, 15> kSecretOptions{{
    {"curl", "-u", SecretOption::Value::of_user},
    {"curl", "--user", SecretOption::Value::of_user},
    {"curl", "-U", SecretOption::Value::of_user},
    {"curl", "--proxy-user", SecretOption::Value::of_user},
    {"http", "-a", SecretOption::Value::of_user},
    {"https", "-a", SecretOption::Value::of_user},
    {"mysql*", "-p", SecretOption::Value::attached},
    {"mariadb*", "-p", SecretOption::Value::attached},
    {"mongo*", "-p", SecretOption::Value::next},
    {"sshpass", "-p", SecretOption::Value::next},
    {"redis-cli", "-a", SecretOption::Value::next},
    {"ldap*", "-w", SecretOption::Value::next},
    {"openssl", "-passin", SecretOption::Value::next},
    {"openssl", "-passout", SecretOption::Value::next},
    {"openssl", "-k", SecretOption::Value::next},
}};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool is_of_name(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.'; }

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_quote(char c) { return c == '"' || c == '\''; }

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

constexpr bool is_address(const TokenStart& token) { return token.start.find('/') != std::string_view::npos; }

using Characters = std::array<bool, 256>;

// The first characters of all tokens, so that most of a text is not compared with the whole table.
constexpr Characters first_characters(bool of_addresses_only) {
  Characters out{};
  for (const TokenStart& each : kTokenStarts) {
    if (!of_addresses_only || is_address(each)) out[static_cast<unsigned char>(each.start[0])] = true;
  }
  return out;
}

constexpr Characters kFirstOfTokens = first_characters(false), kFirstOfAddresses = first_characters(true);

// Where a token is that begins like one of kTokenStarts. Without a digit it is a word.
std::optional<Range> known_token(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    bool is_within = at > 0 && is_of_name(text[at - 1]);
    const Characters& firsts = is_within ? kFirstOfAddresses : kFirstOfTokens;
    if (!firsts[static_cast<unsigned char>(text[at])]) continue;
    for (const TokenStart& each : kTokenStarts) {
      if (!text.substr(at).starts_with(each.start) || (is_within && !is_address(each))) continue;
      std::size_t body = at + each.start.size(), end = body;
      while (end < text.size() && (is_of_name(text[end]) || (is_address(each) && text[end] == '/'))) ++end;
      bool has_digit = text.substr(body, end - body).find_first_of("0123456789") != std::string_view::npos;
      if (end - body >= each.least && has_digit) return Range{at, end};
    }
  }
  return std::nullopt;
}

// The part between "://" and '@', if there is a ':' in it, or if it is a token rather than a name.
std::optional<Range> user_of_url(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find("://", from); at != std::string_view::npos; at = text.find("://", at + 1)) {
    std::size_t begin = at + 3;
    std::size_t end = text.find_first_of("/?# \t\n'\"", begin);
    std::string_view authority = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    std::size_t sign = authority.rfind('@');
    if (sign == std::string_view::npos || authority.substr(0, sign) == kLeftOut) continue;
    if (sign >= kLeastTokenOfUrl || authority.substr(0, sign).find(':') != std::string_view::npos)
      return Range{begin, begin + sign};
  }
  return std::nullopt;
}

// "KeyError: 'x'" is no secret.
bool is_name_of_error(std::string_view name) {
  return name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Warning");
}

// The name that ends before `end`, which may be in quotes and have blanks behind it.
std::string_view name_before(std::string_view text, std::size_t end) {
  while (end > 0 && is_blank(text[end - 1])) --end;
  if (end > 0 && is_quote(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_of_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// The value behind the sign at `at`: what is in quotes, else a word. "Authorization: Bearer X" has two words; no
// value has a line's end in it.
Range value_behind(std::string_view text, std::size_t at) {
  std::size_t value = std::min(text.find_first_not_of("=:>", at), text.size());
  bool has_words = text[value - 1] == ':' && value < text.size() && is_blank(text[value]);
  while (value < text.size() && is_blank(text[value])) ++value;
  std::size_t line = std::min(text.find('\n', value), text.size());
  if (value < line && is_quote(text[value])) return {value + 1, std::min(text.find(text[value], value + 1), line)};
  return {value, has_words ? line : std::min(text.find_first_of(" \t\n,;&", value), text.size())};
}

// Finds a secret's name, one of these signs, and a value; returns where the value is.
std::optional<Range> named_value(std::string_view text, std::size_t from, std::string_view signs) {
  for (std::size_t at = text.find_first_of(signs, from); at != std::string_view::npos;
       at = text.find_first_of(signs, at + 1)) {
    std::string_view name = name_before(text, at);
    if (!is_secret_name(name) || is_name_of_error(name)) continue;
    Range value = value_behind(text, at);
    if (value.end > value.begin && text.substr(value.begin, value.end - value.begin) != kLeftOut) return value;
  }
  return std::nullopt;
}

// Finds a JSON web token, a token of a known service, or the text of a private key; returns where it is.
std::optional<Range> bare_secret(std::string_view text, std::size_t from) {
  constexpr std::string_view kToken = "eyJ";
  constexpr std::size_t kLeastToken = 30;
  for (std::size_t at = text.find(kToken, from); at != std::string_view::npos; at = text.find(kToken, at + 1)) {
    std::size_t end = at;
    while (end < text.size() && is_of_name(text[end])) ++end;
    std::string_view token = text.substr(at, end - at);
    if (token.size() >= kLeastToken && token.find('.') != std::string_view::npos) return Range{at, end};
  }
  if (auto token = known_token(text, from)) return token;
  std::size_t key = text.find("-----BEGIN ", from);
  if (key == std::string_view::npos || text.find("PRIVATE KEY", key) == std::string_view::npos) return std::nullopt;
  std::size_t end = text.find("-----END ", key);
  return Range{key, end == std::string_view::npos ? text.size() : end};
}

// Reads a command line, and finds the secrets that are values of its options.
class CommandLine {
 public:
  // Where the secret in the next word is.
  std::optional<Range> next(std::string_view word) {
    auto [hides, of_user] = std::exchange(next_, {});
    if (hides && !word.starts_with('-')) return of_user ? password_of(word, 0) : Range{0, word.size()};
    if (!word.starts_with('-')) {
      note_program(word);
      return std::nullopt;
    }
    for (const SecretOption& each : kSecretOptions) {
      if (each.program != program_ || !word.starts_with(each.option)) continue;
      bool of_users = each.value == SecretOption::Value::of_user;
      bool is_long = each.option.size() > 2;
      std::size_t behind = each.option.size() + (is_long ? 1 : 0);
      if (word == each.option && each.value != SecretOption::Value::attached) next_ = {true, of_users};
      if (word.size() <= behind || (is_long && word[behind - 1] != '=')) continue;
      return of_users ? password_of(word, behind) : Range{behind, word.size()};
    }
    std::string_view name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    if (word.find('=') == std::string_view::npos && is_secret_name(name)) next_ = {true, false};
    return std::nullopt;
  }

 private:
  struct Next {
    bool hides = false, of_user = false;
  };

  static std::optional<Range> password_of(std::string_view word, std::size_t from) {
    std::size_t colon = word.find(':', from);
    if (colon == std::string_view::npos || colon + 1 == word.size()) return std::nullopt;
    return Range{colon + 1, word.size()};
  }

  void note_program(std::string_view word) {
    std::string_view name = word.substr(word.find_last_of("/\"'") + 1);
    for (const SecretOption& each : kSecretOptions) {
      std::string_view start = each.program.substr(0, each.program.find('*'));
      if (name == start || (start != each.program && name.starts_with(start))) program_ = each.program;
    }
  }

  std::string_view program_;  // the last word that is a program of kSecretOptions
  Next next_;
};

// Leaves secrets out of a text that may have command lines.
std::string without_options(std::string_view text) {
  constexpr std::string_view kBetween = " \t\n;|&";
  std::string out;
  CommandLine line;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t begin = std::min(text.find_first_not_of(kBetween, at), text.size());
    std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    std::string_view between = text.substr(at, begin - at), word = text.substr(begin, end - begin);
    if (between.find_first_of("\n;|&") != std::string_view::npos) line = {};
    out += between;
    if (auto secret = word.empty() ? std::nullopt : line.next(word))
      out.append(word.substr(0, secret->begin)).append(kLeftOut).append(word.substr(secret->end));
    else
      out += word;
    at = end;
  }
  return out;
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

// A ':' also separates the directories of a path.
bool may_show(std::string_view name, std::string_view value) {
  if (!is_listed(name) || is_secret_name(name) || value.size() > kMaxShownValue) return false;
  return !user_of_url(value, 0) && !bare_secret(value, 0) && !named_value(value, 0, "=");
}

std::string text_without_secrets(std::string_view text) {
  std::string out = without_options(text);
  auto named = [](std::string_view in, std::size_t from) { return named_value(in, from, "=:"); };
  for (std::optional<Range> (*find)(std::string_view, std::size_t) : {+user_of_url, +bare_secret, +named}) {
    for (auto found = find(out, 0); found; found = find(out, found->begin + kLeftOut.size()))
      out.replace(found->begin, found->end - found->begin, kLeftOut);
  }
  return out;
}

std::vector<std::string> words_without_secrets(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  CommandLine line;
  for (const std::string& word : words) {
    auto secret = line.next(word);
    out.push_back(text_without_secrets(word.substr(0, secret ? secret->begin : word.size())));
    if (secret) out.back().append(kLeftOut).append(word, secret->end, std::string::npos);
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
