/* Sends the token in the fragment of the address, once, and removes it from the address. */
(function () {
  'use strict';
  function signIn() {
    var form = document.getElementById('login');
    var found = /^#t=([A-Za-z0-9_-]+)$/.exec(location.hash);
    if (!form || !found) { return; }
    history.replaceState(null, '', location.pathname + location.search);
    form.elements.namedItem('token').value = found[1];
    form.submit();
  }
  signIn();
  window.addEventListener('hashchange', signIn);
}());
