// Facts of a machine and its Python, each a line; src/cli/doctor_facts.py has their forms.
//
// Pure; thread-safe.
#ifndef TORUS_DOCTOR_FACTS_H_
#define TORUS_DOCTOR_FACTS_H_

#include <string>
#include <vector>

namespace torus::doctor {

// What follows from facts, as more of them:
//   pair NAME VERSION OTHER VERSION   two packages, built for each other, of different versions
std::vector<std::string> Conclusions(const std::vector<std::string>& facts);

}  // namespace torus::doctor

#endif  // TORUS_DOCTOR_FACTS_H_
