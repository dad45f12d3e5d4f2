// SPDX-License-Identifier: Apache-2.0
#include "io/largest_number.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT

namespace {

std::optional<double> largest(std::string_view text, std::string word = "step") {
  io::LargestNumber out(std::move(word));
  out.add(text);
  out.end_line();
  return out.value();
}

}  // namespace

TEST_CASE("the largest number behind a word, as programs print how far they are") {
  for (const char* text :
       {"step 40\n", "Step: 40/1000\n", "STEP=40, loss=7.5\n", "global_step=40\n", "{'step': 40, 'loss': 99}\n",
        "{\"step\": 40}\n", "[step #40]\n", "step\t40", "Step [40/1000]\n", "epoch 50 step 40\n", "step 4e1\n",
        "step 39\nstep 40\nstep 38\n", "10%\rstep 40\r20%\r", "step 39 of step 40", "steps 99 step 40"}) {
    CAPTURE(text);
    CHECK(largest(text) == 40);
  }
  CHECK(largest("epoch 1.5\nepoch 2.25 step 9\n", "Epoch") == 2.25);
  CHECK(largest("step 0\n") == 0);
  CHECK(largest("my iteration: 7", "iteration:") == 7);
}

TEST_CASE("what is no such number") {
  for (const char* text :
       {"", "step\n40\n", "footstep 40\n", "3step 40\n", "step40\n", "steps 40\n", "step forty\n", "step -40\n",
        "step nan\n", "step          40\n", "ste", "step", "step ", "40 step\n"}) {
    CAPTURE(text);
    CHECK_FALSE(largest(text));
  }
}

TEST_CASE("a line that comes in pieces, and one that is too long") {
  io::LargestNumber out("step");
  for (const char* piece : {"loss 1 st", "ep", " 1", "2", "\nstep 1", "1\n"}) out.add(piece);
  CHECK(out.value() == 12);
  out.add("step 9");
  out.end_line();
  out.add("9\n");
  CHECK(out.value() == 12);
  const std::string filler(io::LargestNumber::kMostLine, '.');
  out.add(filler + "step 77\nstep 13");
  out.add("\n" + filler);
  out.add("step 78\n");
  CHECK(out.value() == 13);
}
