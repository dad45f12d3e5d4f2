// SPDX-License-Identifier: Apache-2.0
//
// What proves that this shell belongs to its job: the job's id and the secret. Outlives the links that are made
// with it.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "transport/secret.hpp"
#include "transport/tls.hpp"

namespace nacre::transport {

class Credentials {
 public:
  // The id has 1 to TlsContext::kMaxJobId bytes, without blanks and control bytes.
  static Result<std::unique_ptr<Credentials>> create(std::string job_id, Secret secret);

  [[nodiscard]] const std::string& job_id() const { return job_id_; }
  [[nodiscard]] const Secret& secret() const { return secret_; }
  // Loads libssl at the first call. The reference is valid as long as the credentials.
  Result<TlsContext*> tls();

  // What both ends of a Unix socket send first: the version of the protocol and the job.
  [[nodiscard]] std::string greeting() const;
  // Whether `bytes`, the first ones from the other end, hold its whole greeting; an error if it is not this job's.
  [[nodiscard]] Result<bool> check_greeting(std::string_view bytes) const;

 private:
  Credentials(std::string job_id, Secret secret) : job_id_(std::move(job_id)), secret_(std::move(secret)) {}

  std::string job_id_;
  Secret secret_;
  std::unique_ptr<TlsContext> tls_;
};

// Does in advance what the first link over TCP has to do, mainly loading libssl: for a shell that waits for its
// secret. If it fails, the error is returned when that link is made.
void prepare_tls();

}  // namespace nacre::transport
