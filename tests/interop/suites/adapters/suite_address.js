// Sends the connections that a suite makes to port 5672 to the server under test, whose port is in
// SUITE_ADDRESS. Loaded by `node --require`.
'use strict';

const net = require('node:net');

const connect = net.Socket.prototype.connect;

net.Socket.prototype.connect = function ledConnect(...given) {
  const options = Array.isArray(given[0]) ? given[0][0] : given[0];
  if (options && Number(options.port) === 5672) {
    options.port = Number(process.env.SUITE_ADDRESS);
    options.host = '127.0.0.1';
  }
  return connect.apply(this, given);
};
