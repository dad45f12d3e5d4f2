// SPDX-License-Identifier: Apache-2.0
#include "transport/credentials.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "transport/agreed_ports.hpp"

namespace nacre::transport {
namespace {

constexpr std::string_view kName = "nacre/";
constexpr std::string_view kVersion = "nacre/1 ";

bool is_visible(char byte) { return static_cast<unsigned char>(byte) > ' ' && byte != '\x7f'; }

}  // namespace

Result<std::unique_ptr<Credentials>> Credentials::create(std::string job_id, Secret secret) {
  if (job_id.empty() || job_id.size() > TlsContext::kMaxJobId ||
      !std::all_of(job_id.begin(), job_id.end(), is_visible)) {
    return invalid(fmt::format("{}: a job id for links has 1 to {} bytes, none of them a blank", in_quotes(job_id),
                               TlsContext::kMaxJobId));
  }
  return std::unique_ptr<Credentials>(new Credentials(std::move(job_id), std::move(secret)));
}

Result<TlsContext*> Credentials::tls() {
  if (!tls_) tls_ = TRY(TlsContext::create(job_id_, secret_));
  return tls_.get();
}

std::string Credentials::greeting() const { return fmt::format("{}{}\n", kVersion, job_id_); }

Result<bool> Credentials::check_greeting(std::string_view bytes) const {
  std::string expected = greeting();
  std::size_t common = std::min(bytes.size(), expected.size());
  if (bytes.substr(0, common) == std::string_view(expected).substr(0, common)) return common == expected.size();
  std::size_t end = bytes.find('\n');
  std::size_t named = std::min(bytes.size(), kName.size());
  if (bytes.substr(0, named) != kName.substr(0, named)) {
    return Error{EACCES, "does not speak nacre's protocol: is it a shell of this job?"};
  }
  if (end == std::string_view::npos) {
    // the whole line is needed for a clear error
    if (bytes.size() <= kVersion.size() + TlsContext::kMaxJobId) return false;
    return Error{EACCES, "does not speak nacre's protocol: is it a shell of this job?"};
  }
  std::string_view line = bytes.substr(0, end);
  if (!line.starts_with(kVersion)) {
    return Error{EPROTO, "speaks another version of nacre's protocol; install one version on all nodes"};
  }
  return Error{EACCES, fmt::format("is of another job, {}; this is {}", in_quotes(line.substr(kVersion.size())),
                                   in_quotes(job_id_))};
}

void prepare_tls() {
  auto secret = Secret::generate();
  if (!secret || !agreed_ports(*secret, 0)) return;
  auto context = TlsContext::create("-", *secret);
  if (!context) return;
  auto tls = Tls::create(**context, Role::dials);
  if (tls) static_cast<void>((*tls)->handshake());
}

}  // namespace nacre::transport
