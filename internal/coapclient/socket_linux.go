package coapclient

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// askForErrors makes the kernel queue ICMP errors with the address and the
// datagram they are about (ip(7), IP_RECVERR): an unconnected socket would not
// hear of them otherwise. Where this fails, silence says the same, later.
func (s *socket) askForErrors(network string) {
	s.control(func(fd int) {
		if network == "udp4" {
			_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVERR, 1)
		} else {
			_ = unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVERR, 1)
		}
	})
}

func (s *socket) control(f func(fd int)) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // fails only once closed
}

// drainErrors empties the socket's error queue and returns how many it held.
func (c *Client) drainErrors(s *socket) (n int) {
	s.control(func(fd int) {
		quoted, oob := make([]byte, 64), make([]byte, 512)
		for ; ; n++ {
			q, o, _, from, err := unix.Recvmsg(fd, quoted, oob,
				unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if to, err := destination(from, oob[:o]); err != nil {
				c.unreachable(to, quoted[:q], err)
			}
		}
	})
	return n
}

// destination reads one queued error: whom the datagram was sent to, and the
// error if it is an ICMP "destination unreachable".
func destination(from unix.Sockaddr, oob []byte) (to netip.AddrPort, unreachable error) {
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		to = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(a.Addr)
		if ifc, err := net.InterfaceByIndex(int(a.ZoneId)); a.ZoneId != 0 && err == nil {
			addr = addr.WithZone(ifc.Name)
		}
		to = netip.AddrPortFrom(addr, uint16(a.Port))
	default:
		return to, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return to, nil
	}
	const (
		destinationUnreachable4, fragmentationNeeded = 3, 4
		destinationUnreachable6                      = 1
	)
	for _, m := range msgs {
		if len(m.Data) < 16 { // struct sock_extended_err
			continue
		}
		origin, typ, code := m.Data[4], m.Data[5], m.Data[6]
		v4 := origin == unix.SO_EE_ORIGIN_ICMP && typ == destinationUnreachable4 &&
			code != fragmentationNeeded
		v6 := origin == unix.SO_EE_ORIGIN_ICMP6 && typ == destinationUnreachable6
		if v4 || v6 {
			errno := unix.Errno(binary.NativeEndian.Uint32(m.Data))
			return to, fmt.Errorf("ICMP type %d code %d: %w", typ, code, errno)
		}
	}
	return to, nil
}

// kernel asks how many datagrams the socket lost for want of room, and how much
// room it has (SO_MEMINFO of linux/sock_diag.h).
func (s *socket) kernel() (drops uint64, readBuffer int) {
	const (
		skMeminfoRcvbuf = 1
		skMeminfoDrops  = 8
	)
	s.control(func(fd int) {
		var info [9]uint32
		size := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET,
			unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno == 0 {
			drops, readBuffer = uint64(info[skMeminfoDrops]), int(info[skMeminfoRcvbuf])
		}
	})
	return drops, readBuffer
}
