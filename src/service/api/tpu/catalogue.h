// The catalogue as the Cloud TPU API shows it: accelerator types, runtime versions, locations.
// Errors: PERMISSION_DENIED for an unknown zone, NOT_FOUND, INVALID_ARGUMENT.
#ifndef TORUS_SERVICE_API_TPU_CATALOGUE_H_
#define TORUS_SERVICE_API_TPU_CATALOGUE_H_

#include "google/cloud/location/locations.pb.h"
#include "google/cloud/tpu/v2/cloud_tpu.pb.h"
#include "service/api/context.h"

namespace torus::api::tpu {

namespace v2 = google::cloud::tpu::v2;

Result<v2::ListAcceleratorTypesResponse> ListAcceleratorTypes(
    const Context& context, const v2::ListAcceleratorTypesRequest& request);
Result<v2::AcceleratorType> GetAcceleratorType(const Context& context,
                                               const v2::GetAcceleratorTypeRequest& request);
Result<v2::ListRuntimeVersionsResponse> ListRuntimeVersions(
    const Context& context, const v2::ListRuntimeVersionsRequest& request);
Result<v2::RuntimeVersion> GetRuntimeVersion(const Context& context,
                                             const v2::GetRuntimeVersionRequest& request);
// The account that upstream runs a project's TPUs by.
Result<v2::GenerateServiceIdentityResponse> GenerateServiceIdentity(
    const v2::GenerateServiceIdentityRequest& request);
Result<google::cloud::location::ListLocationsResponse> ListLocations(
    const Context& context, const google::cloud::location::ListLocationsRequest& request);
Result<google::cloud::location::Location> GetLocation(
    const Context& context, const google::cloud::location::GetLocationRequest& request);

}  // namespace torus::api::tpu

#endif  // TORUS_SERVICE_API_TPU_CATALOGUE_H_
