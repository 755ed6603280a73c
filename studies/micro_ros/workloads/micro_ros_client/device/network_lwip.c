/* micro-ROS over UDP, by lwIP and the board's Ethernet controller, a LAN9118. */
#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/timeouts.h>
#include <lwip/udp.h>
#include <netif/ethernet.h>
#include <rmw_microros/rmw_microros.h>
#include <stdlib.h>
#include <string.h>

#include "platform.h"
#include "semihosting.h"

/* ------------------------------------------------------------ the controller */

#define REGISTER(offset) (*(volatile uint32_t *)(0x40200000u + (offset)))
#define RX_DATA REGISTER(0x00)
#define TX_DATA REGISTER(0x20)
#define RX_STATUS REGISTER(0x40)
#define TX_CFG REGISTER(0x70)
#define HW_CFG REGISTER(0x74)
#define RX_FIFO_INF REGISTER(0x7c)
#define TX_FIFO_INF REGISTER(0x80)
#define MAC_COMMAND REGISTER(0xa4)
#define MAC_DATA REGISTER(0xa8)

enum { TX_CFG_ON = 1 << 1, HW_CFG_RESET = 1 << 0 };
enum { MAC_BUSY = 1u << 31, MAC_CONTROL = 1, MAC_ADDRESS_HIGH = 2, MAC_ADDRESS_LOW = 3 };
enum { MAC_RX_ON = 1 << 2, MAC_TX_ON = 1 << 3 };
enum { TX_FIRST = 1 << 13, TX_LAST = 1 << 12, TX_COMMANDS = 8, RX_ERROR = 1 << 15, FCS = 4 };

/* Words of the largest frame. */
#define FRAME_WORDS 384

static const uint8_t mac[ETH_HWADDR_LEN] = {0x52, 0x54, 0x00, 0x12, 0x34, 0x56};
static uint32_t frame[FRAME_WORDS];

static void mac_write(uint32_t index, uint32_t value) {
  MAC_DATA = value;
  MAC_COMMAND = MAC_BUSY | index;
  while (MAC_COMMAND & MAC_BUSY) {
  }
}

static err_t send_frame(struct netif *netif, struct pbuf *packet) {
  const uint32_t length = packet->tot_len, words = (length + 3) / 4;
  (void)netif;
  if (length > sizeof(frame)) {
    return ERR_BUF;
  }
  while ((TX_FIFO_INF & 0xffff) < 4 * words + TX_COMMANDS) {
  }
  pbuf_copy_partial(packet, frame, length, 0);
  TX_DATA = TX_FIRST | TX_LAST | length;
  TX_DATA = length;
  for (uint32_t i = 0; i < words; i++) {
    TX_DATA = frame[i];
  }
  return ERR_OK;
}

/* The next frame; NULL where there is none, or no memory for it. */
static struct pbuf *received_frame(void) {
  if (!(RX_FIFO_INF >> 16 & 0xff)) {
    return NULL;
  }
  const uint32_t status = RX_STATUS, length = status >> 16 & 0x3fff;
  for (uint32_t i = 0; i < (length + 3) / 4; i++) {
    frame[i % FRAME_WORDS] = RX_DATA;
  }
  if (status & RX_ERROR || length > sizeof(frame) || length < FCS) {
    return NULL;
  }
  struct pbuf *packet = pbuf_alloc(PBUF_RAW, length - FCS, PBUF_POOL);
  if (packet) {
    pbuf_take(packet, frame, length - FCS);
  }
  return packet;
}

static err_t begin_controller(struct netif *netif) {
  HW_CFG = HW_CFG_RESET;
  while (HW_CFG & HW_CFG_RESET) {
  }
  mac_write(MAC_ADDRESS_LOW, mac[0] | mac[1] << 8 | mac[2] << 16 | (uint32_t)mac[3] << 24);
  mac_write(MAC_ADDRESS_HIGH, mac[4] | mac[5] << 8);
  mac_write(MAC_CONTROL, MAC_RX_ON | MAC_TX_ON);
  TX_CFG = TX_CFG_ON;
  memcpy(netif->hwaddr, mac, sizeof(mac));
  netif->hwaddr_len = sizeof(mac);
  netif->mtu = 1500;
  netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
  netif->output = etharp_output;
  netif->linkoutput = send_frame;
  return ERR_OK;
}

/* ------------------------------------------------------------ UDP */

#define MOST_WAITING 8

static struct netif network;
static struct udp_pcb *to_agent;
static u16_t agent_port;
static struct pbuf *waiting[MOST_WAITING];
static uint32_t waiting_count;

u32_t sys_now(void) { return (u32_t)(device_ns() / 1000000); }

static void received(void *unused, struct udp_pcb *of, struct pbuf *datagram, const ip_addr_t *from,
                     u16_t port) {
  (void)unused, (void)of, (void)from, (void)port;
  if (waiting_count == MOST_WAITING) {
    pbuf_free(datagram);
    return;
  }
  waiting[waiting_count++] = datagram;
}

/* One frame from the controller, and what is due. */
static void turn(void) {
  struct pbuf *packet = waiting_count < MOST_WAITING ? received_frame() : NULL;
  if (packet && network.input(packet, &network) != ERR_OK) {
    pbuf_free(packet);
  }
  sys_check_timeouts();
}

static bool open_network(struct uxrCustomTransport *transport) {
  ip_addr_t host;
  (void)transport;
  IP_ADDR4(&host, 10, 0, 2, 2);
  to_agent = udp_new();
  if (!to_agent || udp_connect(to_agent, &host, agent_port) != ERR_OK) {
    return false;
  }
  udp_recv(to_agent, received, NULL);
  return true;
}

static bool close_network(struct uxrCustomTransport *transport) {
  (void)transport;
  udp_remove(to_agent);
  while (waiting_count) {
    pbuf_free(waiting[--waiting_count]);
  }
  return true;
}

static size_t write_datagram(struct uxrCustomTransport *transport, const uint8_t *data, size_t size,
                             uint8_t *error) {
  struct pbuf *datagram = pbuf_alloc(PBUF_TRANSPORT, (u16_t)size, PBUF_RAM);
  (void)transport;
  *error = 0;
  if (!datagram) {
    return 0;
  }
  pbuf_take(datagram, data, (u16_t)size);
  const err_t sent = udp_send(to_agent, datagram);
  pbuf_free(datagram);
  turn();
  return sent == ERR_OK ? size : 0;
}

static size_t read_datagram(struct uxrCustomTransport *transport, uint8_t *data, size_t size,
                            int milliseconds, uint8_t *error) {
  const int64_t end = device_ns() + (int64_t)milliseconds * 1000000;
  (void)transport;
  *error = 0;
  do {
    turn();
  } while (!waiting_count && device_ns() < end);
  if (!waiting_count) {
    return 0;
  }
  struct pbuf *datagram = waiting[0];
  memmove(waiting, waiting + 1, --waiting_count * sizeof(*waiting));
  const size_t length = datagram->tot_len;
  pbuf_copy_partial(datagram, data, (u16_t)size, 0);
  pbuf_free(datagram);
  return length <= size ? length : 0;
}

/* Of the network that qemu makes for one machine. */
bool use_transport(const char *name, const char *where) {
  ip4_addr_t own, mask, gateway;
  (void)name;
  agent_port = (u16_t)atoi(where);
  IP4_ADDR(&own, 10, 0, 2, 15);
  IP4_ADDR(&mask, 255, 255, 255, 0);
  IP4_ADDR(&gateway, 10, 0, 2, 2);
  lwip_init();
  if (!netif_add(&network, &own, &mask, &gateway, NULL, begin_controller, ethernet_input)) {
    end_program(7);
  }
  netif_set_default(&network);
  netif_set_link_up(&network);
  netif_set_up(&network);
  return RMW_RET_OK == rmw_uros_set_custom_transport(false, NULL, open_network, close_network,
                                                     write_datagram, read_datagram);
}
