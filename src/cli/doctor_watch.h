// Logs and running programs, as `torus doctor` reads them.
#ifndef TORUS_CLI_DOCTOR_WATCH_H_
#define TORUS_CLI_DOCTOR_WATCH_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "doctor/diagnosis.h"

namespace torus::cli {

// Reads a log to its end; "-" is standard input. NOT_FOUND, INTERNAL.
Status ReadLog(doctor::Diagnosis& diagnosis, const std::string& path);

// Runs the command with its input, output and interrupts as without us, reads what it says, and
// returns its exit status; 128 + n for signal n. NOT_FOUND if there is no such program.
Result<int> RunAndWatch(doctor::Diagnosis& diagnosis, const std::vector<std::string>& command);

}  // namespace torus::cli

#endif  // TORUS_CLI_DOCTOR_WATCH_H_
