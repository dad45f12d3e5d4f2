// SPDX-License-Identifier: Apache-2.0
#include "transport/tls.hpp"

#include "transport/openssl.hpp"
#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

std::unique_ptr<TlsContext> context_of(char letter = 'a', const std::string& job = "job",
                                       std::uint64_t rekey_after = TlsContext::kRekeyAfter) {
  Secret secret = Secret::from_hex(std::string(2 * Secret::kSize, letter)).value();
  return TlsContext::create(job, secret, rekey_after).value();
}

void carry(Tls& from, Tls& to) {
  std::string bytes;
  from.take_output(bytes);
  if (!bytes.empty()) to.receive(bytes);
}

std::string outcome_of(const Result<bool>& result) {
  if (!result) return result.error().message;
  return *result ? "done" : "goes on";
}

struct Both {
  explicit Both(TlsContext& ours, TlsContext& theirs)
      : dials(Tls::create(ours, Role::dials).value()), listens(Tls::create(theirs, Role::listens).value()) {
    for (int round = 0; round < 4; ++round) {
      if (dialled == "" || dialled == "goes on") dialled = outcome_of(dials->handshake());
      carry(*dials, *listens);
      if (listened == "" || listened == "goes on") listened = outcome_of(listens->handshake());
      carry(*listens, *dials);
    }
  }
  std::unique_ptr<Tls> dials;
  std::unique_ptr<Tls> listens;
  std::string dialled;
  std::string listened;
};

std::string read_all(Tls& tls) {
  std::string out;
  char buffer[5000];
  for (;;) {
    auto size = tls.read(buffer, sizeof buffer);
    if (!size) return "error: " + size.error().message;
    if (*size == 0) return out;
    out.append(buffer, *size);
  }
}

}  // namespace

TEST_CASE("who knows the secret gets through, and what is sent is not to be read on the way") {
  auto context = context_of();
  Both both(*context, *context);
  CHECK(both.dialled == "done");
  CHECK(both.listened == "done");
  const std::string word = "a word that nobody else may read";
  std::string bytes;
  REQUIRE(both.dials->write(word, bytes));
  CHECK(bytes.size() > word.size());
  CHECK_FALSE(contains(bytes, "word"));
  both.listens->receive(bytes);
  CHECK(read_all(*both.listens) == word);
  both.listens->receive(bytes);  // the words are repeated, as by an eavesdropper
  CHECK(contains(read_all(*both.listens), "error: breaks the rules of TLS 1.3"));
}

TEST_CASE("the key is changed after so many bytes") {
  auto ours = context_of('a', "job", 50000);
  auto theirs = context_of('a', "job", 70000);
  Both both(*ours, *theirs);
  std::string text(200000, 'x');
  for (int i = 0; i < 20; ++i) {
    text[i] = 'y';
    std::string bytes;
    REQUIRE(both.dials->write(text, bytes));
    both.listens->receive(bytes);
    REQUIRE((read_all(*both.listens) == text));
    bytes.clear();
    REQUIRE(both.listens->write(text, bytes));
    both.dials->receive(bytes);
    REQUIRE((read_all(*both.dials) == text));
  }
}

TEST_CASE("another secret") {
  auto ours = context_of('b');
  auto theirs = context_of('a');
  Both both(*ours, *theirs);
  const std::string said = "has another secret than this shell; give all shells of a job one file";
  CHECK(both.dialled == said);
  CHECK(both.listened == said);
}

TEST_CASE("another job") {
  auto ours = context_of('a', "other\njob");
  auto theirs = context_of();
  Both both(*ours, *theirs);
  CHECK(both.dialled == "is not of job 'other\\x0ajob'");
  CHECK(both.listened == "is of another job, 'other\\x0ajob'; this is 'job'");
}

TEST_CASE("a byte that is changed on the way ends it") {
  auto context = context_of();
  Both both(*context, *context);
  std::string bytes;
  REQUIRE(both.dials->write("a word", bytes));
  auto at = GENERATE(0, 1, 4, 5, 10, 20);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  both.listens->receive(bytes);
  std::string got = read_all(*both.listens);
  CHECK((got.empty() || got.starts_with("error: ")));  // empty: a longer record is waited for
}

TEST_CASE("job ids that cannot be named") {
  Secret secret = Secret::generate().value();
  CHECK(contains(TlsContext::create("", secret).error().message, "a job id of 0 bytes"));
  CHECK(contains(TlsContext::create(std::string(129, 'x'), secret).error().message, "a job id of 129 bytes"));
  CHECK(TlsContext::create(std::string(128, 'x'), secret).has_value());
  auto bad = GENERATE(as<std::string>(), "", "a b", "a\n", "\x7f", std::string(129, 'x'));
  CHECK(contains(Credentials::create(bad, secret.copy()).error().message, "a job id for links has 1 to 128 bytes"));
}

TEST_CASE("a libssl that is missing is named") {
  Error error = OpenSsl::load("libno-such-ssl.so.3").error();
  CHECK(contains(error.message,
                 "cannot load libno-such-ssl.so.3, which links between nodes need (Debian's package "));
  CHECK(contains(OpenSsl::load("libc.so.6").error().message, "libc.so.6 has no OPENSSL_init_ssl"));
}
