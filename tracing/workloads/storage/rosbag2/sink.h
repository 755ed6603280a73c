/* What the benchmark calls: rosbag2's storage plugins behind C. */
#ifndef ROSLENS_ROSBAG2_SINK_H
#define ROSLENS_ROSBAG2_SINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A message: its content stays where it is until it has been written. */
struct roslens_message {
  int64_t time_ns;
  const uint8_t *data;
  size_t length;
  uint16_t topic;
};

/* Makes room for so many messages, so that a measurement does not: of a batch, of all batches where
   rosbag2's writer writes, which may still have them when it gets the next batch. */
int roslens_sink_reserve(size_t messages);
/* Opens the plugin `storage` for the file `uri` (without its suffix); preset and configuration as
   for 'ros2 bag record': empty for none. With a compression that is not empty (none, message,
   file) rosbag2's own writer writes by the plugin, and `uri` is a folder. */
int roslens_sink_open(const char *storage, const char *preset, const char *configuration,
                      const char *uri, uint16_t topics, const char *type,
                      const char *compression);
/* Makes the next batch out of messages. */
int roslens_sink_prepare(const struct roslens_message *messages, size_t count);
/* Hands the batch to the plugin, in one call; to rosbag2's writer message by message. */
int roslens_sink_write(void);
/* Lets the plugin go, which ends the file; rosbag2's writer has then compressed all. */
int roslens_sink_close(void);
/* Why the last call that did not return 0 failed. */
const char *roslens_sink_error(void);
/* "rosbag2_storage SQLite mcap": versions. */
const char *roslens_sink_versions(void);

#ifdef __cplusplus
}
#endif

#endif
