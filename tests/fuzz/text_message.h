// A message in protobuf's text format, as the corpus has them: one can read and write them by hand.
#ifndef TORUS_TESTS_FUZZ_TEXT_MESSAGE_H_
#define TORUS_TESTS_FUZZ_TEXT_MESSAGE_H_

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

namespace torus::fuzz {

// False unless the text is a message that can be sent: on the wire a string is UTF-8.
inline bool ReadMessage(std::string_view text, google::protobuf::Message* message) {
  struct Silent : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  } silent;
  const google::protobuf::LogSilencer quiet;  // protobuf logs each text that is no UTF-8
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(std::string(text), message) &&
         message->ParseFromString(message->SerializeAsString());
}

}  // namespace torus::fuzz

#endif  // TORUS_TESTS_FUZZ_TEXT_MESSAGE_H_
