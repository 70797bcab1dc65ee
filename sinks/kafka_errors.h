// What librdkafka's error codes mean for a record, and what a person can do about them.
#pragma once

#include <librdkafka/rdkafka.h>

#include <string>
#include <string_view>

#include "config/failure_class.h"

namespace outbox {

// Why a record that was refused with this code can never be delivered as it is; `other` for what is not known to be the
// record's or the topic's fault.
FailureClass failure_class_of(rd_kafka_resp_err_t code);

// Whether this error says that another producer has taken over, or that the broker has timed a transaction out.
bool is_fencing(rd_kafka_resp_err_t code);

// Whether a record was reported with this code because of another one that failed.
bool failed_for_another(rd_kafka_resp_err_t code);

// Whether the broker refuses a batch whole with this code, for one record in it.
bool fails_whole_batch(rd_kafka_resp_err_t code);

// Whether the credentials or certificates did not serve.
bool is_authentication_failure(rd_kafka_resp_err_t code);

// What a person can do about a record that was refused with this code.
std::string remedy_for(rd_kafka_resp_err_t code, std::string_view topic);

}  // namespace outbox
