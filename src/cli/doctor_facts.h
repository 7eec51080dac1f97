// The facts that `torus doctor` looks at: of this machine and a Python, of a file, of a node.
#ifndef TORUS_CLI_DOCTOR_FACTS_H_
#define TORUS_CLI_DOCTOR_FACTS_H_

#include <string>
#include <vector>

#include "cli/ssh_session.h"
#include "doctor/diagnosis.h"

namespace torus::cli {

using Facts = std::vector<std::string>;

// Of this machine, and of the packages of `python`. NOT_FOUND if there is no such program.
Result<Facts> FactsOfPython(const std::string& python);
// Of a file, as --show-facts prints them.
Result<Facts> FactsOfFile(const std::string& path);

// Of one machine, or one node.
struct Origin {
  std::string name;  // "here", "worker 0"
  Facts facts;
};

// What the service says of a node, and what each of its workers does when asked over ssh, as `user`
// (empty: as whoever runs this command). A node
// that is not there or not READY is a fact, no error.
Result<std::vector<Origin>> FactsOfNode(const SshFlags& flags, const std::string& user);

void AddFacts(doctor::Diagnosis& diagnosis, const Origin& origin);

}  // namespace torus::cli

#endif  // TORUS_CLI_DOCTOR_FACTS_H_
