/* Updates the page of running evaluations in place; without scripts its link reloads it. */
(function () {
  'use strict';
  var PERIOD_MS = 1500;
  var LONGEST_MS = 10000;
  var SHARE = 10;
  var live = document.getElementById('live');
  var connection = document.getElementById('connection');
  var timer = 0;
  var began = Date.now();
  var lost = 0;
  if (!live || !connection) { return; }
  document.documentElement.classList.add('live');

  // Changes only what differs, so that the focus, the selection and the place in a scrolled table stay.
  function update(old, fresh) {
    if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(document.importNode(fresh, true));
    } else if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) { old.data = fresh.data; }
    } else {
      Array.prototype.slice.call(old.attributes).forEach(function (one) {
        if (!fresh.hasAttribute(one.name)) { old.removeAttribute(one.name); }
      });
      Array.prototype.slice.call(fresh.attributes).forEach(function (one) {
        if (old.getAttribute(one.name) !== one.value) { old.setAttribute(one.name, one.value); }
      });
      updateChildren(old, fresh);
    }
  }

  function remove(element) {
    var next = element.nextSibling;
    if (next && next.nodeType === Node.TEXT_NODE) { next.remove(); }
    element.remove();
  }

  function updateChildren(old, fresh) {
    var ids = {};
    fresh.childNodes.forEach(function (one) { if (one.id) { ids[one.id] = true; } });
    Array.prototype.slice.call(old.children).forEach(function (one) { if (one.id && !ids[one.id]) { remove(one); } });
    fresh.childNodes.forEach(function (one, place) {
      var here = old.childNodes[place];
      if (!here || (one.id || '') !== (here.id || '')) {
        old.insertBefore(document.importNode(one, true), here || null);
      } else {
        update(here, one);
      }
    });
    while (old.childNodes.length > fresh.childNodes.length) { old.lastChild.remove(); }
  }

  function say(text) {
    if (connection.textContent !== text) { connection.textContent = text; }
    live.classList.toggle('stale', text !== '');
  }

  // Pages that take long are asked for less often: the evaluations need the machine more.
  function later() {
    var pause = Math.max(PERIOD_MS * (1 + lost), SHARE * (Date.now() - began));
    clearTimeout(timer);
    if (!document.hidden) { timer = setTimeout(ask, Math.min(pause, LONGEST_MS)); }
  }

  function fail(text) {
    lost += 1;
    say(text);
    later();
  }

  function ask() {
    var request = new XMLHttpRequest();
    began = Date.now();
    request.open('GET', live.dataset.live);
    request.responseType = 'document';
    request.timeout = LONGEST_MS;
    request.onload = function () {
      var fresh = request.status === 200 && request.response && request.response.getElementById('live');
      if (request.status === 401) {
        fail('The session has ended. Open the address that medhelm serve printed last.');
      } else if (!fresh) {
        fail('The server reports an error. Trying again.');
      } else {
        lost = 0;
        say('');
        update(live, fresh);
        later();
      }
    };
    request.onerror = request.ontimeout = function () {
      fail('The server does not respond. Trying again; the numbers below are old. Evaluations do not depend on it.');
    };
    request.send();
  }

  document.addEventListener('visibilitychange', function () {
    clearTimeout(timer);
    if (!document.hidden) { ask(); }
  });
  live.addEventListener('click', function (event) {
    var text = event.target.getAttribute('data-copy');
    if (text) { navigator.clipboard.writeText(text).then(function () { event.target.textContent = 'Copied'; }); }
  });
  later();
}());
