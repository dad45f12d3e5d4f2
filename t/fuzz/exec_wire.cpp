// SPDX-License-Identifier: Apache-2.0
//
// What the shells send each other for commands beside the tasks: what is taken is written so that it reads back to
// the same, and its numbers are within their bounds.
#include "plugins/control/exec_wire.hpp"

#include "require.hpp"

using nacre::fuzz::require;
using nacre::plugins::ExecCommand;
using nacre::plugins::ExecNotice;
using nacre::plugins::ExecRecord;

namespace {

void check_size(const std::optional<winsize>& size) {
  if (size) require(size->ws_row > 0 && size->ws_col > 0, "a size that a terminal can have");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto command = ExecCommand::parse(bytes)) {
    require(!command->argv.empty() || command->joins, "there is something to start");
    check_size(command->pty);
    auto again = ExecCommand::parse(command->text());
    require(again && again->text() == command->text(), "the same command");
  }
  if (auto notice = ExecNotice::parse(bytes)) {
    require(notice->signum >= 0 && notice->signum <= SIGRTMAX, "a signal");
    check_size(notice->size);
    auto again = ExecNotice::parse(notice->text());
    require(again && again->text() == notice->text(), "the same notice");
  }
  if (auto record = ExecRecord::parse(bytes)) require(record->str() == bytes, "the same record");
  return 0;
}
